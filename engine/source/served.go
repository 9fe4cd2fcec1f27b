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
)

// served knows whether the cluster serves resources. It asks discovery, one request at a time and
// at most one a second per group version, however many informers want to know.
type served struct {
	disco   discovery.ServerResourcesInterfaceWithContext
	clock   clock.PassiveClock
	fresh   time.Duration // how long an answer holds
	silence time.Duration // between tries of the resource itself, if discovery may not be asked

	mu       sync.Mutex                            // guards what follows; no other lock is taken while it is held
	versions map[schema.GroupVersion]*groupVersion // those ever asked for: at most one per informer
	waiting  int                                   // informers whose resource is not served
}

type groupVersion struct {
	turn      chan struct{} // capacity 1: whoever asks holds it, and may use the rest
	asked     time.Time
	resources *metav1.APIResourceList
	err       error
}

// discoveryTimeout ends a request to a discovery that hangs.
const discoveryTimeout = 10 * time.Second

func newServed(disco discovery.ServerResourcesInterfaceWithContext, clock clock.PassiveClock) *served {
	return &served{
		disco: disco, clock: clock, fresh: time.Second, silence: 15 * time.Second,
		versions: map[schema.GroupVersion]*groupVersion{},
	}
}

// availability says what is known about a selection's resource.
type availability uint8

const (
	isServed   availability = iota // it can be listed and watched, as far as discovery knows
	isAbsent                       // the cluster does not serve it
	isUnusable                     // it serves it, but not in the way that the selection needs it
	isUnknown                      // discovery fails
	isSilent                       // discovery may not be asked
)

// ask returns whether the cluster serves a selection, and why not.
func (s *served) ask(ctx context.Context, sel Selection) (availability, string) {
	list, err := s.resources(ctx, sel.Resource.GroupVersion())
	switch {
	case apierrors.IsNotFound(err):
		return isAbsent, fmt.Sprintf("the cluster does not serve %s", sel.Resource.GroupVersion())
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return isSilent, fmt.Sprintf("the cluster does not seem to serve %s, and discovery is forbidden", resourceName(sel.Resource))
	case err != nil:
		return isUnknown, "discovery: " + reasonOf(err)
	}
	at := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == sel.Resource.Resource })
	if at < 0 {
		return isAbsent, fmt.Sprintf("the cluster does not serve %s", resourceName(sel.Resource))
	}
	r := list.APIResources[at]
	for _, verb := range []string{"list", "watch"} {
		if !slices.Contains(r.Verbs, verb) {
			return isUnusable, fmt.Sprintf("%s does not support %s", resourceName(sel.Resource), verb)
		}
	}
	if sel.Namespace != "" && !r.Namespaced {
		return isUnusable, fmt.Sprintf("%s has no namespaces: leave namespaces out", resourceName(sel.Resource))
	}
	return isServed, ""
}

func (s *served) resources(ctx context.Context, gv schema.GroupVersion) (*metav1.APIResourceList, error) {
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
		return nil, ctx.Err() // who asked has gone: that is no answer for the others
	}
	if err == nil && list == nil {
		list = &metav1.APIResourceList{}
	}
	v.asked, v.resources, v.err = s.clock.Now(), list, err
	return list, err
}

// wait returns when the selection's resource is worth another try: discovery has it, or may not be
// asked.
func (s *served) wait(ctx context.Context, sel Selection, poll time.Duration) availability {
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
		// Four requests a second at most, if each waits for a version of its own.
		pause := max(poll, time.Duration(s.waiting)*time.Second/4)
		s.mu.Unlock()
		if sleep(ctx, jitter(pause)) != nil {
			return isUnknown
		}
		switch a, _ := s.ask(ctx, sel); {
		case a == isServed, a == isUnusable, a == isSilent && s.clock.Since(began) >= s.silence:
			return a
		}
	}
}

// jitter returns a duration between three quarters of d and d, so that what started together does
// not stay together.
func jitter(d time.Duration) time.Duration {
	return d - rand.N(d/4+1)
}

// sleep returns after d, or with ctx's error when that ends.
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
