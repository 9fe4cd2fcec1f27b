package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/object"
)

// A resource that is not served is no proof that its objects are deleted. They may live on in
// another version, and one of several API servers may be behind. The objects count as deleted once
// two looks, Options.GoneAfter apart, and all that informd asked in between, have found no version
// of the group that has the resource. Until then the informer keeps them, and waits.

// defaultGoneAfter is the default of Options.GoneAfter.
const defaultGoneAfter = time.Minute

// lookEvery is the time between two looks, if the default of Options.GoneAfter holds.
const lookEvery = 10 * time.Second

// absence is what an informer finds out about a resource that is not served.
type absence struct {
	informer *Informer
	since    time.Time // when the first look of a row found the resource gone; zero if none did
	next     time.Time // of the next look
	isOver   bool      // the objects count as deleted
}

// unserved waits until the resource is worth another attempt, and reports whether discovery has it.
// Meanwhile it reports the informer's objects as deleted, if the resource turns out to be gone.
func (i *Informer) unserved(ctx context.Context, reason string) (isConfirmed bool) {
	if i.feed.isEmpty() {
		i.cache.empty() // nobody waits for a cache without objects
	}
	i.health.notServed(reason, i.counts.objects.Load())
	a := &absence{informer: i}
	answer := i.parent.served.wait(ctx, i.sel, i.parent.tuning.poll, func() { a.look(ctx) })
	return answer == isServed
}

// look asks once more whether the resource is gone, if it is time.
func (a *absence) look(ctx context.Context) {
	i := a.informer
	now := i.parent.clock.Now()
	if a.isOver || now.Before(a.next) {
		return
	}
	after := i.parent.goneAfter
	a.next = now.Add(min(lookEvery, after/6))
	versions, err := i.parent.served.serving(ctx, i.sel.Resource.GroupResource())
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.since = time.Time{}
		i.health.keeps(fmt.Sprintf("the cluster does not serve %s, and informd cannot find out "+
			"whether it is gone in all versions: %s", object.ResourceName(i.sel.Resource), reasonOf(err)))
	case len(versions) > 0:
		a.since = time.Time{}
		i.health.keeps(fmt.Sprintf("the cluster serves %s only in %s: name that version in the source",
			object.ResourceName(i.sel.Resource), strings.Join(versions, ", ")))
	case a.since.IsZero():
		a.since = now
	case now.Sub(a.since) >= after:
		a.isOver = true
		i.gone(ctx)
	}
}

// gone reports the informer's objects as deleted.
func (i *Informer) gone(ctx context.Context) {
	// Empty the cache first, so that it is at least as fresh as the deletions.
	i.cache.empty()
	i.health.gone(i.counts.objects.Load())
	i.feed.clear(ctx)
}

// IsGone reports whether no version of the resource's group has the resource now. The error says
// why nobody knows.
func (i *Informer) IsGone(ctx context.Context) (bool, error) {
	if i.byHand != nil {
		return i.byHand.isWithdrawn, nil
	}
	versions, err := i.parent.served.serving(ctx, i.sel.Resource.GroupResource())
	return err == nil && len(versions) == 0, err
}

// serving returns the versions, as in v1, in which the cluster has a resource. They may lack list
// or watch. An error means that nobody knows.
func (s *served) serving(ctx context.Context, r schema.GroupResource) (has []string, err error) {
	all, err := s.groupVersions(ctx, r.Group)
	if err != nil {
		return nil, err
	}
	for _, version := range all {
		gv := schema.GroupVersion{Group: r.Group, Version: version}
		list, err := s.resources(ctx, gv)
		if err != nil { // also a "not found", because the list of groups has it
			return nil, err
		}
		if isRefusal(gv, list) {
			return nil, errNothingListed
		}
		if slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool {
			return a.Name == r.Resource
		}) {
			has = append(has, version)
		}
	}
	return has, nil
}

// errNothingListed reports a list of the core resources without any.
var errNothingListed = errors.New("the API server does not say which resources v1 has")

// isRefusal reports whether a list of resources stands for a refusal: client-go returns an empty
// one for v1 if the API server answers 403 or 404. Each API server has resources in v1.
func isRefusal(gv schema.GroupVersion, list *metav1.APIResourceList) bool {
	return gv == schema.GroupVersion{Version: "v1"} && len(list.APIResources) == 0
}

// maxGroups bounds the list of groups, in bytes. That of a cluster with 1,000 groups takes 250 KB.
const maxGroups = 8 << 20

// groupVersions returns the versions of a group; none if the cluster does not have the group. It
// asks the list of all groups: unlike a "not found", that proves that a server has looked.
func (c *apiClient) groupVersions(ctx context.Context, group string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	if group == "" {
		var core metav1.APIVersions
		if err := c.document(ctx, "api", "APIVersions", &core.TypeMeta, &core); err != nil {
			return nil, err
		}
		if len(core.Versions) == 0 {
			return nil, errNothingListed
		}
		return core.Versions, nil
	}
	var groups metav1.APIGroupList
	if err := c.document(ctx, "apis", "APIGroupList", &groups.TypeMeta, &groups); err != nil {
		return nil, err
	}
	for _, g := range groups.Groups {
		if g.Name == group {
			versions := make([]string, 0, len(g.Versions))
			for _, v := range g.Versions {
				versions = append(versions, v.Version)
			}
			return versions, nil
		}
	}
	return nil, nil
}

// document reads a document of discovery. is is its TypeMeta, which must have the kind.
func (c *apiClient) document(
	ctx context.Context, path, kind string, is *metav1.TypeMeta, into any,
) error {
	body, err := c.lists.Get().AbsPath(path).Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxGroups+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxGroups:
		return fmt.Errorf("/%s is larger than %d MiB", path, maxGroups>>20)
	}
	if err := json.Unmarshal(text, into); err != nil || is.Kind != kind {
		return fmt.Errorf("/%s is not an %s (is a proxy in between?)", path, kind)
	}
	return nil
}
