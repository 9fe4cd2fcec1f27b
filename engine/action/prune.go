package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// prune is a verb of rules' own actions, which no handler can ask for.
const prune = "prune"

// prunePage is how many objects are asked for at a time: maxBody has room for that many with the most annotations, of 256 KiB.
const prunePage = 100

// Prune is the action that deletes what has these labels and was not applied by the actions before it, in whichever namespace.
// Who applies sets them. Labels are copied, by people and controllers, so an object goes only if the rule did apply it, by what
// the API server remembers of its field managers.
func Prune(resource schema.GroupVersionResource, labelSelector string) handler.Action {
	selector, _ := json.Marshal(labelSelector) // no string fails
	return handler.Action{Verb: prune, Resource: handler.Resource(resource), Object: selector}
}

// ValidateOwn is Validate for actions of a rule's own, of which Prune may be one.
func ValidateOwn(actions []handler.Action) error {
	others := make([]handler.Action, 0, len(actions))
	for _, a := range actions {
		if a.Verb != prune {
			others = append(others, a)
		}
	}
	return Validate(others)
}

// prune deletes what is labelled as actions[i] says and was not applied by those before it. Each deletion is an action of its
// own, in the audit too.
func (x *Executor) prune(ctx context.Context, by By, ev *handler.Event, cause Cause, actions []handler.Action, i int) error {
	began, a := x.now(), actions[i]
	t := task{Executor: x, by: by, event: ev, cause: cause, action: a, number: i + 1, latest: new(string)}
	found, o, err := t.labelled(ctx)
	if err != nil {
		o.result = o.resultOf(err)
		x.audit(by, ev, a, o, x.now().Sub(began))
		return err
	}
	applied := make(map[delta.Key]bool)
	for _, earlier := range actions[:i] {
		if earlier.Verb == handler.ActionApply && resourceOf(earlier.Resource).GroupResource() == t.resource().GroupResource() {
			applied[keyOf(earlier)] = true
		}
	}
	var failed failures
	for _, m := range found {
		t.action = handler.Action{
			Verb: handler.ActionDelete, Resource: a.Resource, Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		}
		if applied[t.key()] || m.DeletionTimestamp != nil || !m.appliedBy(fieldManager(by.Rule)) {
			continue
		}
		if err := x.run(ctx, t); err != nil {
			if failed.add(err); ctx.Err() != nil || inTrouble(err) {
				break
			}
		}
	}
	return failed.of(len(found))
}

// isPruned tells whether an action applies what is pruned with it.
func isPruned(a handler.Action, actions []handler.Action) bool {
	return a.Verb == handler.ActionApply && a.Subresource == "" && slices.ContainsFunc(actions, func(p handler.Action) bool {
		return p.Verb == prune && resourceOf(p.Resource).GroupResource() == resourceOf(a.Resource).GroupResource()
	})
}

// errNotOurs is about an apply that would have somebody else's object pruned in the end.
var errNotOurs = errors.New("there is one already that the rule did not apply, and that prune would delete in the end: give it another name, or delete it")

// takesOver tells whether an apply of what is pruned is about an object that somebody else made.
func (t task) takesOver(there metadata) bool {
	return t.prunes && there.UID != "" && !there.appliedBy(fieldManager(t.by.Rule))
}

// appliedBy tells whether a field manager owns anything of the object because it applied that.
func (m metadata) appliedBy(name string) bool {
	return slices.ContainsFunc(m.ManagedFields, func(by manager) bool {
		return by.Manager == name && by.Operation == string(metav1.ManagedFieldsOperationApply) && by.Subresource == ""
	})
}

// labelled are the objects that have the labels that a Prune says.
func (t task) labelled(ctx context.Context) (found []metadata, o outcome, err error) {
	var selector string
	if err := json.Unmarshal(t.action.Object, &selector); err != nil || selector == "" {
		return nil, o, handler.Reject(fmt.Errorf("prune of %s: no label selector", object.ResourceName(t.resource())))
	}
	query := url.Values{"labelSelector": {selector}, "limit": {fmt.Sprint(prunePage)}}
	for {
		got, f := t.client.do(ctx, request{method: http.MethodGet, path: pathOf(t.action.Resource, ""), query: query, accept: metadataLists})
		switch {
		case f == nil:
		case f.code == http.StatusNotFound: // there is no such resource, hence nothing of it
			return nil, o, nil
		case f.code == http.StatusGone && query.Has("continue"): // it took too long: from the start
			query.Del("continue")
			found = nil
			continue
		default:
			o, err = t.failed(o, f)
			return nil, o, fmt.Errorf("list %s by label, in all namespaces: %w", object.ResourceName(t.resource()), err)
		}
		found = append(found, got.items...)
		if got.meta.Continue == "" {
			return found, o, nil
		}
		query.Set("continue", got.meta.Continue)
	}
}
