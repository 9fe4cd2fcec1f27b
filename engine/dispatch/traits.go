package dispatch

import (
	"encoding/json"

	"github.com/informd/informd/engine/delivery"
)

// traits are what LaneOptions and the handler mean for a rule's deliveries. They never change.
type traits struct {
	acts        bool // its deliveries may change the cluster
	actsItself  bool // it performs actions of its own
	actsAlone   bool // it has no handler
	preparesAll bool // the Preparer completes each attempt
	isPlain     bool // deliveries need neither preparing nor slowing unless they ask for it
	gathers     bool // changes come in groups
	readsChange bool // the payload depends on more than the object's new state
	counts      bool // decided events are counted
}

func traitsOf(o *LaneOptions, hasHandler bool) traits {
	t := traits{
		acts: o.Acts || o.ActsItself, actsItself: o.ActsItself, actsAlone: !hasHandler,
		preparesAll: o.Attaches || o.ActsItself,
		gathers:     o.Gathering != nil && !o.Gathering.Ends,
		readsChange: o.ReadsChange, counts: o.Count != nil,
	}
	t.isPlain = !t.preparesAll && !t.acts
	return t
}

// actsNow reports whether what comes next for a delivery are the rule's own actions, and not its
// handler.
func (t *traits) actsNow(d *delivery.Delivery) bool {
	return t.actsItself && (t.actsAlone || d.Answer.IsAcknowledged())
}

// isGroup reports whether the event of a delivery has items.
func (t *traits) isGroup(d *delivery.Delivery) bool { return t.gathers || len(d.Items) > 0 }

// isStale reports whether a payload must be remade. A record may say stale although the rule, as it
// is now, reads no change. A stale record without a payload is one that could not be made.
func (t *traits) isStale(stale bool, payload json.RawMessage) bool {
	return stale && (t.readsChange || payload == nil)
}

// needsNothing reports whether a delivery can go to the handler without any preparation.
func (t *traits) needsNothing(d *delivery.Delivery) bool {
	return t.isPlain && !d.Stale && !d.Undecided && d.Answer == nil && d.Refusals == 0
}
