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

	"github.com/informd/informd/engine/delta"
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

// PruneStep returns the step that does a Prune.
func PruneStep(resource schema.GroupVersionResource, labelSelector string) Step {
	return Step{Actions: []handler.Action{Prune(resource, labelSelector)}}
}

// ValidateOwn is Validate for a rule's own actions, which may include Prune and breaks.
func ValidateOwn(actions []handler.Action) error {
	others := make([]handler.Action, 0, len(actions))
	for _, a := range actions {
		if a.Verb != prune && a.Verb != stop {
			others = append(others, a)
		}
	}
	return Validate(others)
}

// prune deletes what t selects and the actions before it do not apply. Each deletion is an action
// of its own, also in the audit. A prune that takes long logs how far it is.
func (x *Executor) prune(ctx context.Context, t task, before []handler.Action) error {
	began, a := x.now(), t.action
	t.latest, t.number, t.label = new(string), 0, ""
	found, o, err := t.superfluous(ctx, before)
	if err != nil {
		o.result = o.resultOf(err)
		x.audit(t.by, t.event, a, o, x.now().Sub(began), err)
		return err
	}
	var failed failures
	x.pruning.add(t.by.Rule, 0, len(found))
	done, said := 0, x.now()
	defer func() { x.pruning.add(t.by.Rule, -done, -len(found)) }()
	for _, t.action = range found {
		err := x.run(ctx, t)
		done++
		x.pruning.add(t.by.Rule, 1, 0)
		if now := x.now(); now.Sub(said) >= progressEvery {
			said = now
			x.log.Info("prune goes on", "rule", t.by.Rule, "resource", object.ResourceName(t.resource()),
				"id", t.event.ID, "done", done, "of", len(found))
		}
		if err != nil {
			if failed.add(err); ctx.Err() != nil || inTrouble(err) {
				break
			}
		}
	}
	if err := failed.of(len(found), "deletions"); err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	return nil
}

// progressEvery is how often a long prune logs how far it is.
const progressEvery = 10 * time.Second

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

// superfluous returns deletions of the objects that t, a prune, selects and that the actions before
// it do not apply.
func (t task) superfluous(
	ctx context.Context, before []handler.Action,
) (deletions []handler.Action, o outcome, err error) {
	found, o, err := t.labelled(ctx)
	if err != nil {
		return nil, o, err
	}
	resource := t.action.Resource
	applied := make(map[delta.Key]bool)
	for _, earlier := range before {
		if earlier.Verb == handler.ActionApply && isSameResource(earlier.Resource, resource) {
			applied[keyOf(earlier)] = true
		}
	}
	for _, m := range found {
		deletion := handler.Action{
			Verb: handler.ActionDelete, Resource: resource,
			Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		}
		if !applied[keyOf(deletion)] && m.DeletionTimestamp == nil &&
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

// errNotOurs is the error of an apply whose prune would delete somebody else's object in the end.
var errNotOurs = errors.New("the object exists and the rule did not apply it, " +
	"and prune would delete it in the end: choose another name, delete the object, or if the rule " +
	"is to own it, run the rule once without prune")

// takesOver reports whether an apply with prune concerns an object that somebody else made.
func (t task) takesOver(there metadata) bool {
	return t.prunes && there.UID != "" && !there.appliedBy(t.by.managers()...)
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
