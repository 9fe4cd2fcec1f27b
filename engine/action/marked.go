package action

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// Marked are the objects that rules with prune have applied where there is no cluster. It knows of
// them what a [Judge] asks for, and takes the place of a [Sequence]. It is not safe for concurrent
// use. Its zero value is ready.
type Marked struct{ objects map[target]metadata }

// One performs an action as [Sequence.One] does. try is called once nothing but the API server can
// refuse it; its error is what that says.
func (m *Marked) One(ctx context.Context, by By, r Request, try func() error) (Ended, error) {
	t := task{by: by, action: r.Action, prunes: r.Prunes, judge: r.Judge}
	at := targetOf(t.resource(), t.key())
	isObject := r.Action.Subresource == "" && r.Action.Verb != handler.ActionEvent
	if isObject {
		leaves, err := t.judged(ctx, m.objects[at], unread)
		switch {
		case leaves:
			return Ended{Result: Gone}, nil
		case err != nil:
			return m.failed(r, err)
		}
	}
	if err := try(); err != nil {
		return m.failed(r, err)
	}
	switch {
	case !isObject:
	case r.Action.Verb == handler.ActionDelete:
		delete(m.objects, at)
	case r.Action.Verb == handler.ActionApply && (r.Prunes || r.Judge != nil):
		m.apply(at, t)
	}
	return Ended{Result: Changed}, nil
}

func (m *Marked) failed(r Request, err error) (Ended, error) {
	e := Ended{Result: outcome{}.resultOf(err), Why: whyFailed(err)}
	e.After, _ = handler.RetryDelay(err)
	if r.Label == "" {
		return e, fmt.Errorf("%s: %w", what(r.Action), err)
	}
	return e, fmt.Errorf("%s: %s: %w", r.Label, what(r.Action), err)
}

// apply notes that a rule has applied an object.
func (m *Marked) apply(at target, t task) {
	var o struct{ Metadata metadata }
	_ = json.Unmarshal(t.action.Object, &o) // an action is valid JSON
	now := o.Metadata
	now.UID = "virtual" // it is there
	ours := []string{FieldManager(t.by.Rule), FieldManager(t.by.Former)}
	for _, other := range m.objects[at].ManagedFields {
		if !slices.Contains(ours, other.Manager) {
			now.ManagedFields = append(now.ManagedFields, other)
		}
	}
	now.ManagedFields = append(now.ManagedFields, manager{
		Manager: FieldManager(t.by.Rule), Operation: string(metav1.ManagedFieldsOperationApply),
	})
	if m.objects == nil {
		m.objects = make(map[target]metadata)
	}
	m.objects[at] = now
}

// Prune forgets what [Sequence.Prune] would delete.
func (m *Marked) Prune(
	by By, resource schema.GroupVersionResource, labelSelector string,
	keeps func(resource schema.GroupVersionResource, key delta.Key) bool,
) {
	selector, err := labels.Parse(labelSelector)
	if err != nil {
		return // no rule makes one
	}
	maps.DeleteFunc(m.objects, func(at target, is metadata) bool {
		return at.resource == resource.GroupResource() && selector.Matches(labels.Set(is.Labels)) &&
			is.appliedBy(by.managers()...) && !keeps(resource, at.key)
	})
}

// Deleted notes that somebody else has deleted an object.
func (m *Marked) Deleted(resource schema.GroupVersionResource, key delta.Key) {
	delete(m.objects, targetOf(resource, key))
}
