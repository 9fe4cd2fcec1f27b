package dispatch

import (
	"encoding/json"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// event returns the event of a delivery as the handler sees it.
func (l *Lane) event(d *delivery.Delivery) handler.Event {
	return eventOf(d.Delta, d.Payload, l.rule, l.resource, d.Attempts)
}

// Event returns the event as the handler saw it at the last attempt, without attachments.
func (l *Letter) Event() handler.Event {
	return eventOf(l.Delta, l.Payload, l.Rule, l.Resource, l.Attempts)
}

// eventOf makes an event. It shares the bytes of the objects and of the payload.
func eventOf(
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

// sameEvent reports whether two deltas have the same ID.
func sameEvent(a, b delta.Delta) bool {
	return a.Type == b.Type && a.Round == b.Round &&
		a.Object.UID() == b.Object.UID() && a.Object.ResourceVersion() == b.Object.ResourceVersion()
}
