package action

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// Applied is an object that a rule applied, without its content.
type Applied struct {
	delta.Key
	Labels, Annotations map[string]string
}

// Applied returns the objects of a resource, in all namespaces, that a rule applied and that have
// these labels. It leaves out those that are being deleted. [IsNotServed] says of the error that
// the cluster does not serve the resource: then nothing can be deleted now, but the objects may be
// there again later.
func (x *Executor) Applied(
	ctx context.Context, by By, resource schema.GroupVersionResource, labelSelector string,
) (found []Applied, err error) {
	all, f := x.client.listed(ctx, handler.Resource(resource), labelSelector)
	if f != nil {
		name := object.ResourceName(resource)
		return nil, fmt.Errorf("list %s by label, in all namespaces: %w", name, f)
	}
	for _, m := range all {
		if m.DeletionTimestamp == nil && m.appliedBy(by.managers()...) {
			key := delta.Key{Namespace: m.Namespace, Name: m.Name}
			found = append(found, Applied{key, m.Labels, m.Annotations})
		}
	}
	return found, nil
}

// Exists reports whether the cluster has an object. It lists the object by name, because informd
// may list what it watches, and need not be allowed to get it.
func (x *Executor) Exists(
	ctx context.Context, resource schema.GroupVersionResource, key delta.Key,
) (bool, error) {
	query := url.Values{"fieldSelector": {"metadata.name=" + key.Name}, "limit": {"1"}}
	got, f := x.client.do(ctx, request{
		method: http.MethodGet, path: pathOf(handler.Resource(resource), key.Namespace),
		query: query, accept: metadataLists,
	})
	if f != nil {
		return false, fmt.Errorf("look for %s %s: %w", object.ResourceName(resource), key, f)
	}
	if len(got.items) == 0 && (got.meta.Continue != "" || !got.isList()) {
		// What is applied for an object that does not exist is deleted: be sure.
		return false, fmt.Errorf("look for %s %s: the API server's answer is not a whole list",
			object.ResourceName(resource), key)
	}
	return len(got.items) > 0, nil
}

// IsForbidden reports whether the API server refused what err is about for lack of a permission.
func IsForbidden(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.code == http.StatusForbidden
}

const (
	maxRestarts   = 3         // how often a list in pages starts over
	maxFound      = 1_000_000 // objects of all pages
	maxEmptyPages = 1000      // of one list; a page without objects is legal
)

// isList reports whether an answer is a list, or a page of one.
func (a *answer) isList() bool { return strings.HasSuffix(a.kind, "List") }

// listed returns the objects with these labels, in all namespaces.
func (c *client) listed(
	ctx context.Context, resource handler.Resource, labelSelector string,
) (found []metadata, f *failure) {
	path := pathOf(resource, "")
	query := url.Values{"labelSelector": {labelSelector}, "limit": {fmt.Sprint(prunePage)}}
	for restarts, empty := 0, 0; ; {
		got, f := c.do(ctx, request{
			method: http.MethodGet, path: path, query: query, accept: metadataLists,
		})
		switch {
		case f == nil && len(got.items) == 0 && !got.isList():
			return nil, &failure{code: got.code, text: "the API server's answer is not a list"}
		case f == nil:
		case f.code == http.StatusNotFound: // the path names no object: the resource is missing
			f.reason, f.why = noResource, CauseNotServed
			return nil, f
		case f.code == http.StatusGone && query.Has("continue") && restarts < maxRestarts:
			// the list took too long: start over
			restarts++
			query.Del("continue")
			found = nil
			continue
		default:
			return nil, f
		}
		found = append(found, got.items...)
		if len(got.items) == 0 { // which is legal
			empty++
		}
		next := got.meta.Continue
		switch {
		case next == "":
			return found, nil
		case empty > maxEmptyPages, next == query.Get("continue"):
			return nil, &failure{code: got.code, text: "the API server's list does not get on: " +
				"page after page has no objects, or one leads to itself"}
		case len(found) > maxFound:
			return nil, &failure{code: got.code,
				text: fmt.Sprintf("the API server's list has more than %d objects", maxFound)}
		}
		query.Set("continue", next)
	}
}
