package dispatch

import (
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// event returns the event of a delivery as the handler sees it.
func (l *Lane) event(d *delivery.Delivery) handler.Event {
	return delivery.Event(d.Delta, d.Payload, l.rule, l.resource, d.Attempts)
}

// sameEvent reports whether two deltas have the same ID.
func sameEvent(a, b delta.Delta) bool {
	return a.Type == b.Type && a.Round == b.Round &&
		a.Object.UID() == b.Object.UID() && a.Object.ResourceVersion() == b.Object.ResourceVersion()
}
