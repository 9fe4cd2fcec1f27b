package action

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// task is one action of an answer to an event.
type task struct {
	*Executor
	by     By
	event  *handler.Event
	cause  Cause
	action handler.Action
	number int    // of the action within the answer, from 1; 0 for the deletions of a prune
	label  string // of the action in the manifest or the answer, as actions[0]; may be ""
	// latest is the version that the answer made of the event's own object, or "". The actions of
	// an answer share it.
	latest *string
	// prunes means that a prune deletes the object once the rule stops applying it.
	prunes   bool
	judge    Judge     // may be nil
	sequence *Sequence // of a rule's own action; else nil
}

func (t task) resource() schema.GroupVersionResource { return resourceOf(t.action.Resource) }
func (t task) key() delta.Key                        { return keyOf(t.action) }

// contest returns the key by which conflicts over the action's object are counted.
func (t task) contest() contest { return contest{t.by.Rule, targetOf(t.resource(), t.key())} }

func (t task) do(ctx context.Context) (o outcome, err error) {
	leave, err := t.limits.enter(ctx, t)
	if err != nil {
		return outcome{}, fmt.Errorf("waiting for the rate limit of the handler or rule: %w", err)
	}
	defer func() { leave(ctx.Err() == nil && isOverload(err)) }()
	return t.perform(ctx)
}

func (t task) perform(ctx context.Context) (outcome, error) {
	a := t.action
	kind, err := t.kind(ctx)
	if err != nil {
		return outcome{}, err
	}
	switch a.Verb {
	case handler.ActionCreate:
		return t.create(ctx, kind)
	case handler.ActionEvent:
		return t.record(ctx, kind)
	}
	return t.change(ctx, kind)
}

// kind returns the kind of the action's object, if it has a namespace just as the action.
func (t task) kind(ctx context.Context) (kind, error) {
	a, resource := t.action, t.resource()
	if a.Subresource != "" { // discovery lists a resource and its subresources side by side
		resource.Resource += "/" + a.Subresource
	}
	k, f := t.kinds.of(ctx, resource)
	if f == nil && k.namespaced != (a.Namespace != "") {
		t.kinds.forget(t.resource().GroupVersion()) // the resource's definition may have changed
		k, f = t.kinds.of(ctx, resource)
	}
	switch {
	case f != nil:
		_, err := t.failed(outcome{}, f)
		return kind{}, err
	case k.namespaced && a.Namespace == "":
		err := errors.New("the resource has namespaces, and the action names none")
		return kind{}, handler.Reject(err)
	case !k.namespaced && a.Namespace != "":
		err := errors.New("the resource has no namespaces, and the action names one")
		return kind{}, handler.Reject(err)
	}
	return k, nil
}

// own reports whether the action concerns the event's object, in the event's state.
func (t task) own() bool {
	uid := t.action.UID
	return t.event.Event != handler.Deleted && t.namesEventObject() &&
		(uid == "" || uid == t.event.UID)
}

// namesEventObject reports whether the action names the event's object, which may be another
// object of that name by now.
func (t task) namesEventObject() bool {
	a, ev := t.action, t.event
	return isSameResource(a.Resource, ev.Resource) &&
		a.Namespace == ev.Namespace && a.Name == ev.Name
}

// failed returns the outcome of an action whose last request failed.
func (t task) failed(o outcome, f *failure) (outcome, error) {
	o.code, o.why = f.code, f.whyIs()
	switch f.reason {
	case never:
		return o, handler.Reject(f)
	case notFound, terminating:
		if o.result = Gone; f.reason == notFound {
			o.why = "" // that is as it should be
		}
		return o, nil
	case noNamespace:
		err := fmt.Errorf("namespace %s does not exist", t.action.Namespace)
		if t.by.Handler == "" {
			return o, err // the rule decides again before the next try
		}
		return o, handler.Reject(err)
	case noResource:
		t.kinds.forget(t.resource().GroupVersion())
		if f.code == 0 {
			return o, f // as discovery says
		}
		resource := resourceName(t.resource(), t.action.Subresource)
		return o, fmt.Errorf("the cluster does not serve %s: %w", resource, f)
	}
	if f.after > 0 {
		return o, handler.RetryAfter(f.after, f)
	}
	return o, f
}
