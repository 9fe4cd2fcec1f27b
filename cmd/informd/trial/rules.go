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

// selected returns the events that the handler's rules make of an object that was added, with
// payload and attachments as informd run would make them of this cache. There are none if no rule
// selects it.
func (s subject) selected(
	resource schema.GroupVersionResource, o *object.Object,
) (events []handler.Event, err error) {
	for _, r := range s.plan.Rules {
		if r.Handler != s.Name || !s.cache[r.Source.Name].selects(resource, o) {
			continue
		}
		ev, ok, err := s.event(r, o)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.Name, err)
		}
		if ok {
			events = append(events, ev)
		}
	}
	return events, nil
}

// event returns the event that a rule makes of an object that was added; ok is false if the rule
// does not select it.
func (s subject) event(r *plan.Rule, o *object.Object) (ev handler.Event, ok bool, err error) {
	caches := evaluate.Caches{
		Own: s.reading(r.Source.Name), Others: make(map[string]evaluate.Reading),
	}
	for _, source := range r.LooksInto {
		caches.Others[source.Name] = s.reading(source.Name)
	}
	finder := caches.Finder(time.Now())
	match, ok, err := r.Member(delta.Delta{Type: delta.Added, Object: o}, finder)
	if err == nil && ok {
		match, ok, err = r.Decide(match.Delta, finder)
	}
	if err != nil || !ok {
		return ev, false, err
	}
	resource := handler.Resource(r.Source.Resource)
	ev = delivery.Event(match.Delta, match.Payload, r.Name, resource, 1)
	if o.UID() == "" { // a made-up object, whose event needs an id of its own all the same
		ev.ID = r.Name + "/" + o.Key() + "/" + ev.Event
	}
	ev.Attached, err = r.Attach(match.Delta, finder)
	return ev, true, err
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
func (i indexed) ByIndex(index, value string) ([]*object.Object, error) {
	return i.source.byIndex(index, value), nil
}
