package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// prune is a verb of rules' own actions. No handler can use it.
const prune = "prune"

// prunePage is how many objects a list asks for at a time. maxBody has room for that many with the
// most annotations, 256 KiB.
const prunePage = 100

// Prune returns the action that deletes, in all namespaces, the objects with these labels that the
// actions before it do not apply. People and controllers copy labels, so an object is deleted only
// if the API server remembers that the rule applied it.
func Prune(resource schema.GroupVersionResource, labelSelector string) handler.Action {
	selector, _ := json.Marshal(labelSelector) // no string fails
	return handler.Action{Verb: prune, Resource: handler.Resource(resource), Object: selector}
}

// ValidateOwn is Validate for a rule's own actions, which may include Prune.
func ValidateOwn(actions []handler.Action) error {
	others := make([]handler.Action, 0, len(actions))
	for _, a := range actions {
		if a.Verb != prune {
			others = append(others, a)
		}
	}
	return Validate(others)
}

// prune deletes what t selects and for which keeps returns false. Each deletion is an action of its
// own, also in the audit. A prune that takes long logs how far it is.
func (x *Executor) prune(
	ctx context.Context, t task, keeps func(handler.Action) bool,
) (outcome, error) {
	began, a := x.now(), t.action
	t.latest, t.number, t.label = new(string), 0, ""
	found, o, err := t.listSuperfluous(ctx, keeps)
	switch {
	case errors.Is(err, ErrStopped):
		return o, err
	case IsNotServed(err): // nothing can be deleted now
		return outcome{result: Gone, code: o.code, why: CauseNotServed}, nil
	case err != nil:
		o.result = o.resultOf(err)
		x.audit(t.by, t.event, a, o, x.now().Sub(began), err)
		return o, err
	}
	var failed failures
	var troubles Troubles
	did, end := x.beginPrune(t.by.Rule, len(found),
		"resource", object.ResourceName(t.resource()), "id", t.event.ID)
	defer end()
	for _, t.action = range found {
		_, err := x.run(ctx, t)
		if errors.Is(err, ErrStopped) {
			return outcome{}, err // what failed before is tried again
		}
		did()
		isInTrouble := troubles.Add(err, false)
		if err != nil {
			if failed.add(err); ctx.Err() != nil || isInTrouble {
				break
			}
		}
	}
	o = outcome{result: Changed}
	if err = failed.of(len(found), "deletions"); err != nil {
		o.result, err = o.resultOf(err), fmt.Errorf("prune: %w", err)
	}
	return o, err
}

// listSuperfluous returns the deletions of a prune, once the rule may make another request.
func (t task) listSuperfluous(
	ctx context.Context, keeps func(handler.Action) bool,
) (found []handler.Action, o outcome, err error) {
	leave, err := t.limits.enter(ctx, t)
	if err != nil {
		return nil, o, err
	}
	defer func() { leave(ctx.Err() == nil && isOverload(err)) }()
	return t.superfluous(ctx, keeps)
}

// progressEvery is how often a long prune logs how far it is.
const progressEvery = 10 * time.Second

// beginPrune begins a prune of n deletions. did is called after each of them, also concurrently, and
// end at the end. A prune that takes long logs how far it is, with attrs.
func (x *Executor) beginPrune(rule string, n int, attrs ...any) (did, end func()) {
	x.pruning.add(rule, 0, n)
	var mu sync.Mutex // guards the following
	done, said := 0, x.now()
	did = func() {
		mu.Lock()
		defer mu.Unlock()
		done++
		x.pruning.add(rule, 1, 0)
		if now := x.now(); now.Sub(said) >= progressEvery {
			said = now
			all := slices.Concat([]any{"rule", rule}, attrs, []any{"done", done, "of", n})
			x.log.Info("prune goes on", all...)
		}
	}
	end = func() {
		mu.Lock()
		defer mu.Unlock()
		x.pruning.add(rule, -done, -n)
	}
	return did, end
}

// Pruning returns how far the prunes are that a rule makes now: how many deletions they have tried,
// of how many. It returns 0, 0 if there is none.
func (x *Executor) Pruning(rule string) (done, of int) { return x.pruning.get(rule) }

// pruning knows how far the prunes of each rule are. Its zero value is ready.
type pruning struct {
	mu sync.Mutex
	by map[string]progress // by rule; guarded by mu
}

type progress struct{ done, of int }

func (p *pruning) add(rule string, done, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = make(map[string]progress)
	}
	is := p.by[rule]
	is.done, is.of = is.done+done, is.of+of
	if p.by[rule] = is; is == (progress{}) {
		delete(p.by, rule)
	}
}

func (p *pruning) get(rule string) (done, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[rule].done, p.by[rule].of
}

// superfluous returns deletions of the objects that t, a prune, selects and for which keeps returns
// false.
func (t task) superfluous(
	ctx context.Context, keeps func(handler.Action) bool,
) (deletions []handler.Action, o outcome, err error) {
	found, o, err := t.labelled(ctx)
	if err != nil {
		return nil, o, err
	}
	resource := t.action.Resource
	for _, m := range found {
		deletion := handler.Action{
			Verb: handler.ActionDelete, Resource: resource,
			Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		}
		if !keeps(deletion) && m.DeletionTimestamp == nil &&
			m.appliedBy(t.by.managers()...) {
			deletions = append(deletions, deletion)
		}
	}
	return deletions, o, nil
}

// isPruned reports whether a applies objects that a prune among actions covers.
func isPruned(a handler.Action, actions []handler.Action) bool {
	if a.Verb != handler.ActionApply || a.Subresource != "" {
		return false
	}
	return slices.ContainsFunc(actions, func(p handler.Action) bool {
		return p.Verb == prune && isSameResource(p.Resource, a.Resource)
	})
}

// ErrNotOurs is wrapped by the error of an apply whose prune would delete somebody else's object in
// the end.
var ErrNotOurs = errors.New("the object exists and the rule did not apply it, " +
	"and prune would delete it in the end: choose another name, delete the object, or if the rule " +
	"is to own it, run the rule once without prune")

// takesOver reports whether an apply with prune concerns an object that somebody else made.
func (t task) takesOver(there metadata) bool {
	return t.prunes && there.UID != "" && !there.appliedBy(t.by.managers()...)
}

// judged reports whether an object, which is there or not, is to stay as it is. An error says that
// the action must not be performed on it. It notes whose fields the action takes over.
func (t *task) judged(ctx context.Context, there metadata, from basis) (leaves bool, err error) {
	switch {
	case t.judge == nil && from == unread && t.takesOver(there):
		return false, handler.Reject(ErrNotOurs)
	case t.judge == nil, there.UID == "":
		return false, nil
	}
	former, err := t.judge(ctx, There{there})
	if former != "" {
		t.by.Former = former
	}
	if errors.Is(err, ErrLeave) {
		return true, nil
	}
	return false, err
}

// appliedBy reports whether one of these field managers applied any of the object.
func (m metadata) appliedBy(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return m.applier(name, "") >= 0 })
}

// applier returns the index in the managed fields of a field manager that applied any of the object,
// or of one of its subresources. It is -1 if it did not.
func (m metadata) applier(name, subresource string) int {
	return slices.IndexFunc(m.ManagedFields, func(by manager) bool {
		return by.Manager == name && by.Subresource == subresource &&
			by.Operation == string(metav1.ManagedFieldsOperationApply)
	})
}

// labelled returns the objects that a Prune selects.
func (t task) labelled(ctx context.Context) (found []metadata, o outcome, err error) {
	resource := object.ResourceName(t.resource())
	var selector string
	if err := json.Unmarshal(t.action.Object, &selector); err != nil || selector == "" {
		return nil, o, handler.Reject(fmt.Errorf("prune of %s: no label selector", resource))
	}
	found, f := t.client.listed(ctx, t.action.Resource, selector)
	if f != nil {
		o, err = t.failed(o, f)
		return nil, o, fmt.Errorf("list %s by label, in all namespaces: %w", resource, err)
	}
	return found, o, nil
}
