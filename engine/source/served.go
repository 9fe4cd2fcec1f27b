package source

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/object"
)

// served finds out whether the cluster serves a resource. It asks discovery, with one request at a
// time and at most one a second per group version, however many informers ask.
type served struct {
	disco         discovery.ServerResourcesInterfaceWithContext
	groupVersions func(ctx context.Context, group string) ([]string, error) // see apiClient
	clock         clock.PassiveClock
	fresh         time.Duration // how long an answer is valid
	silence       time.Duration // between attempts on the resource itself if discovery is forbidden

	mu       sync.Mutex                            // guards the fields below; taken alone
	versions map[schema.GroupVersion]*groupVersion // all ever requested: those of the groups of the informers
	waiting  int                                   // informers whose resource is not served
}

type groupVersion struct {
	turn      chan struct{} // capacity 1; the holder asks discovery, and may use the fields below
	asked     time.Time
	resources *metav1.APIResourceList
	err       error
}

// discoveryTimeout ends a discovery request that hangs.
const discoveryTimeout = 10 * time.Second

func newServed(
	disco discovery.ServerResourcesInterfaceWithContext,
	groupVersions func(ctx context.Context, group string) ([]string, error),
	clock clock.PassiveClock,
) *served {
	return &served{
		disco: disco, groupVersions: groupVersions, clock: clock, fresh: time.Second, silence: 15 * time.Second,
		versions: map[schema.GroupVersion]*groupVersion{},
	}
}

// availability is what served knows about a selection's resource.
type availability uint8

const (
	isServed   availability = iota // discovery says that it can be listed and watched
	isAbsent                       // the cluster does not serve it in this version
	isUnusable                     // the cluster serves it, but not as the selection needs it
	isUnknown                      // discovery fails
	isSilent                       // discovery is forbidden
)

// ask returns whether the cluster serves a selection. If it does not, the text says why.
func (s *served) ask(ctx context.Context, sel Selection) (availability, string) {
	list, err := s.resources(ctx, sel.Resource.GroupVersion())
	switch {
	case apierrors.IsNotFound(err):
		return isAbsent, fmt.Sprintf("the cluster does not serve %s", sel.Resource.GroupVersion())
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err),
		err == nil && isRefusal(sel.Resource.GroupVersion(), list):
		return isSilent, fmt.Sprintf("the cluster does not seem to serve %s, "+
			"and discovery is forbidden", object.ResourceName(sel.Resource))
	case err != nil:
		return isUnknown, "discovery: " + reasonOf(err)
	}
	at := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool {
		return r.Name == sel.Resource.Resource
	})
	if at < 0 {
		return isAbsent, fmt.Sprintf("the cluster does not serve %s", object.ResourceName(sel.Resource))
	}
	r := list.APIResources[at]
	for _, verb := range []string{"list", "watch"} {
		if !slices.Contains(r.Verbs, verb) {
			return isUnusable, fmt.Sprintf("%s does not support %s",
				object.ResourceName(sel.Resource), verb)
		}
	}
	if sel.Namespace != "" && !r.Namespaced {
		return isUnusable, fmt.Sprintf("%s has no namespaces: leave namespaces out",
			object.ResourceName(sel.Resource))
	}
	return isServed, ""
}

func (s *served) resources(
	ctx context.Context, gv schema.GroupVersion,
) (*metav1.APIResourceList, error) {
	s.mu.Lock()
	v := s.versions[gv]
	if v == nil {
		v = &groupVersion{turn: make(chan struct{}, 1)}
		s.versions[gv] = v
	}
	s.mu.Unlock()
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !v.asked.IsZero() && s.clock.Since(v.asked) < s.fresh {
		return v.resources, v.err
	}
	limited, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	list, err := s.disco.ServerResourcesForGroupVersionWithContext(limited, gv.String())
	if ctx.Err() != nil {
		return nil, ctx.Err() // the asker has gone, which is no answer for the others
	}
	if err == nil && list == nil {
		list = &metav1.APIResourceList{}
	}
	v.asked, v.resources, v.err = s.clock.Now(), list, err
	return list, err
}

// wait returns when the selection's resource is worth another attempt: discovery has it, or
// discovery is forbidden. While it is absent, wait calls look each time that it has asked.
func (s *served) wait(
	ctx context.Context, sel Selection, poll time.Duration, look func(),
) availability {
	s.mu.Lock()
	s.waiting++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
	}()
	began := s.clock.Now()
	for {
		s.mu.Lock()
		// At most four requests a second, even if each informer waits for another version.
		pause := max(poll, time.Duration(s.waiting)*time.Second/4)
		s.mu.Unlock()
		if sleep(ctx, jitter(pause)) != nil {
			return isUnknown
		}
		switch a, _ := s.ask(ctx, sel); {
		case a == isServed, a == isUnusable, a == isSilent && s.clock.Since(began) >= s.silence:
			return a
		case a == isAbsent:
			look()
		}
	}
}

// jitter returns a random duration between three quarters of d and d, so that informers that
// started together drift apart.
func jitter(d time.Duration) time.Duration {
	return d - rand.N(d/4+1)
}

// sleep waits for d. It returns ctx's error if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
