package dispatch

import (
	"slices"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/plugins/handler"
)

// naming says how the events of a lane are called.
type naming struct {
	rule     string
	former   []delivery.Former // names that the rule had, the oldest first
	resource handler.Resource
}

// event returns the event of a delivery as the handler sees it. isGroup says that it has items.
func (n *naming) event(item *item, isGroup bool) handler.Event {
	d := &item.Value
	ev := delivery.Event(d.Delta, d.Payload, n.rule, n.resource, d.Attempts)
	if isGroup {
		ev = delivery.Group(ev, d.Items, n.rule, n.resource)
	}
	return delivery.MadeBy(n.of(d, item.N), ev)
}

// of returns the name that begins the id of the delivery with a number.
func (n *naming) of(d *delivery.Delivery, number uint64) string {
	if d.Rule != "" {
		return d.Rule
	}
	return delivery.NameAt(n.former, number, n.rule)
}

// rename notes that the rule had another name until now, for deliveries up to a number.
func (n *naming) rename(from string, last uint64) {
	n.former = append(slices.Clone(n.former), delivery.Former{Rule: from, Last: last})
}
