package action

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/internal/printable"
)

// kinds knows the kind of each resource, and whether it has namespaces. It asks discovery once, and
// again for resources that are not served, at most once a second per group version. It grows with
// the resources of actions, which the configuration bounds.
type kinds struct {
	disco discovery.ServerResourcesInterfaceWithContext
	now   func() time.Time

	mu       sync.Mutex
	versions map[schema.GroupVersion]*versionKinds
}

type versionKinds struct {
	outdated atomic.Bool

	turn  chan struct{} // capacity 1: whoever reads or writes the fields below holds it
	asked time.Time
	list  []metav1.APIResource
	err   error
}

type kind struct {
	name       string
	namespaced bool
}

const askEvery = time.Second

func newKinds(disco discovery.ServerResourcesInterfaceWithContext, now func() time.Time) *kinds {
	return &kinds{disco: disco, now: now, versions: make(map[schema.GroupVersion]*versionKinds)}
}

// of returns the kind of a resource.
func (k *kinds) of(ctx context.Context, r schema.GroupVersionResource) (kind, *failure) {
	v := k.version(r.GroupVersion())
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return kind{}, unreachable(ctx.Err())
	}
	ripe := k.now().Sub(v.asked) >= askEvery
	if ripe && v.outdated.Swap(false) {
		v.list = nil
	}
	found := v.find(r.Resource)
	if found == nil && ripe {
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		version := r.GroupVersion().String()
		list, err := k.disco.ServerResourcesForGroupVersionWithContext(limited, version)
		if ctx.Err() != nil {
			return kind{}, unreachable(ctx.Err()) // says nothing to the other callers
		}
		v.asked, v.list, v.err = k.now(), nil, err
		if err == nil && list != nil {
			v.list = list.APIResources
		}
		found = v.find(r.Resource)
	}
	switch {
	case found != nil:
		return kind{name: found.Kind, namespaced: found.Namespaced}, nil
	case v.err == nil, apierrors.IsNotFound(v.err):
		text := "the cluster does not serve " + object.ResourceName(r)
		return kind{}, &failure{reason: noResource, text: text}
	}
	text := "discovery: " + printable.Line(v.err.Error(), maxText)
	return kind{}, &failure{text: text, cause: v.err}
}

func (v *versionKinds) find(resource string) *metav1.APIResource {
	at := slices.IndexFunc(v.list, func(r metav1.APIResource) bool { return r.Name == resource })
	if at < 0 {
		return nil
	}
	return &v.list[at]
}

// forget makes the next call ask discovery again, after a resource turned out to have changed.
func (k *kinds) forget(gv schema.GroupVersion) {
	k.version(gv).outdated.Store(true)
}

func (k *kinds) version(gv schema.GroupVersion) *versionKinds {
	k.mu.Lock()
	defer k.mu.Unlock()
	v := k.versions[gv]
	if v == nil {
		v = &versionKinds{turn: make(chan struct{}, 1)}
		k.versions[gv] = v
	}
	return v
}
