package trial

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/plugins/handler"
)

// selected returns the events that the handler's rules make of a change of an object, with payload
// and attachments as informd run would make them of this cache. There are none if no rule selects
// it.
func (s subject) selected(
	resource schema.GroupVersionResource, change delta.Delta,
) (events []handler.Event, err error) {
	for _, r := range s.plan.Rules {
		if r.Handler != s.Name || r.Source.IsRule() {
			continue
		}
		seen, ok := s.cache[r.Source.Name].sees(resource, change)
		if !ok {
			continue
		}
		ev, ok, err := s.event(r, seen)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.Name, err)
		}
		if ok {
			events = append(events, ev)
		}
	}
	return events, nil
}

// sees returns what an informer of the source makes of a change: an object that stops matching its
// selectors is deleted. ok is false if it sees nothing.
func (m *madeUpSource) sees(
	resource schema.GroupVersionResource, change delta.Delta,
) (seen delta.Delta, ok bool) {
	is := m.selects(resource, change.Object)
	was := change.Old != nil && m.selects(resource, change.Old)
	switch {
	case change.Type != delta.Updated || is && was:
		return change, is
	case is:
		return added(change.Object), true
	}
	return delta.Delta{Type: delta.Deleted, Object: change.Old, Old: change.Old}, was
}

// event returns the event that a rule makes of a change; ok is false if the rule does not select
// it.
func (s subject) event(
	r *plan.Rule, change delta.Delta,
) (ev handler.Event, ok bool, err error) {
	caches := evaluate.Caches{
		Own: s.reading(r.Source.Name), Others: make(map[string]evaluate.Reading),
	}
	for _, source := range r.LooksInto {
		caches.Others[source.Name] = s.reading(source.Name)
	}
	finder := caches.Finder(time.Now())
	match, ok, err := r.Member(change, finder)
	if err == nil && ok {
		match, ok, err = r.Decide(match.Delta, finder)
	}
	if err != nil || !ok {
		return ev, false, err
	}
	resource := handler.Resource(r.Source.Resource)
	ev = delivery.Event(match.Delta, match.Payload, r.Name, resource, 1)
	if o := match.Delta.Object; o.UID() == "" {
		// A made-up object, whose event needs an id of its own all the same.
		ev.ID = r.Name + "/" + o.Key() + "/" + ev.Event
	}
	if r.Group != nil { // each change is tried alone, as the only one of its group
		ev.Items = []handler.Event{ev}
	}
	ev.Attached, err = r.Attach(match.Delta, finder)
	return ev, true, err
}

// moment returns the change that a rule without a source sees at a moment of its schedule: now. It
// returns nil if the handler's first rule has a source.
func (s subject) moment() (r *plan.Rule, now delta.Delta) {
	for _, r := range s.plan.Rules {
		if r.Handler != s.Name {
			continue
		}
		if !r.Source.IsRule() {
			break
		}
		o, _ := object.FromJSON(r.Source.Informers[0].Fixed) // it is an object
		return r, delta.Delta{Type: delta.Synced, Object: o, Round: time.Now().Unix()}
	}
	return nil, now
}

// reading returns a source of the cache for a rule's expressions, which get whole objects.
func (s subject) reading(source string) evaluate.Reading {
	whole := new(object.Paths)
	whole.Add()
	return evaluate.Reading{Cache: indexed{s.cache[source]}, Paths: whole}
}

// indexed implements evaluate.Cache.
type indexed struct{ source *madeUpSource }

// ByIndex implements evaluate.Cache.
func (i indexed) ByIndex(index, value string) (object.Bucket, error) {
	return object.BucketOf(i.source.byIndex(index, value)), nil
}
