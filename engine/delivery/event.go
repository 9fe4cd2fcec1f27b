package delivery

import (
	"encoding/json"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// Event returns an event as its handler sees it. It shares the bytes of the objects and of the
// payload.
func Event(
	change delta.Delta, payload json.RawMessage,
	rule string, resource handler.Resource, attempt int,
) handler.Event {
	o := change.Object
	ev := handler.Event{
		ID: change.ID(rule), Rule: rule, Event: change.Type.String(), Attempt: attempt,
		Resource: resource, Namespace: o.Namespace(), Name: o.Name(), UID: o.UID(),
		ResourceVersion: o.ResourceVersion(), Payload: payload,
	}
	if payload != nil {
		return ev
	}
	ev.Object = o.JSON()
	if change.Type == delta.Updated && change.Old != nil {
		ev.Old = change.Old.JSON()
	}
	return ev
}

// Group returns the event of a group's newest change. items are the older ones, oldest first.
func Group(
	newest handler.Event, items []Item, rule string, resource handler.Resource,
) handler.Event {
	newest.Items = make([]handler.Event, 0, len(items)+1)
	for _, item := range items {
		e := Event(item.Delta, item.Payload, rule, resource, newest.Attempt)
		newest.Items = append(newest.Items, e)
	}
	self := newest
	self.Items = nil
	newest.Items = append(newest.Items, self)
	return newest
}
