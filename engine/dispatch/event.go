package dispatch

import (
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// event returns the event of a delivery as the handler sees it.
func (l *Lane) event(d *delivery.Delivery) handler.Event {
	ev := delivery.Event(d.Delta, d.Payload, l.rule, l.resource, d.Attempts)
	if !l.isGroup(d) {
		return ev
	}
	return delivery.Group(ev, d.Items, l.rule, l.resource)
}

// sameEvent reports whether two deltas have the same ID.
func sameEvent(a, b delta.Delta) bool {
	return a.Type == b.Type && a.Round == b.Round &&
		a.Object.UID() == b.Object.UID() && a.Object.ResourceVersion() == b.Object.ResourceVersion()
}

// isGroup reports whether the event of a delivery has items.
func (l *Lane) isGroup(d *delivery.Delivery) bool { return l.gathers() || len(d.Items) > 0 }

// gathers reports whether the rule's changes come in groups.
func (l *Lane) gathers() bool { return l.gathering() != nil && !l.gathering().opts.Ends }
