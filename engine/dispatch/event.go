package dispatch

import (
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/plugins/handler"
)

// event returns the event of a delivery as the handler sees it.
func (l *Lane) event(item *queue.Item[delta.Key, delivery.Delivery]) handler.Event {
	d := &item.Value
	ev := delivery.Event(d.Delta, d.Payload, l.rule, l.resource, d.Attempts)
	if l.isGroup(d) {
		ev = delivery.Group(ev, d.Items, l.rule, l.resource)
	}
	return delivery.MadeBy(l.nameOf(d, item.N), ev)
}

// nameOf returns the name that begins the id of the delivery with a number.
func (l *Lane) nameOf(d *delivery.Delivery, n uint64) string {
	if d.Rule != "" {
		return d.Rule
	}
	return delivery.NameAt(l.former, n, l.rule)
}

// sameEvent reports whether two deltas have the same ID.
func sameEvent(a, b delta.Delta) bool {
	return a.Type == b.Type && a.Round == b.Round && a.Occasion == b.Occasion &&
		a.Object.UID() == b.Object.UID() && a.Object.ResourceVersion() == b.Object.ResourceVersion()
}

// isGroup reports whether the event of a delivery has items.
func (l *Lane) isGroup(d *delivery.Delivery) bool { return l.gathers() || len(d.Items) > 0 }

// gathers reports whether the rule's changes come in groups.
func (l *Lane) gathers() bool { return l.gathering() != nil && !l.gathering().opts.Ends }
