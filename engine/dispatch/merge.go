package dispatch

import (
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/trail"
)

// merge merges as delta.Merge does, and carries the counts of attempts over. The queue calls it
// with its lock held.
//
// Decided and undecided deliveries do not merge, because nobody knows yet whether the undecided one
// will be delivered. There is one exception: a delivery whose actions were refused, because the
// object has changed since, merges with that change. Renewing it would have the same effect.
func (l *Lane) merge(waiting, newer delivery.Delivery, sent bool) (
	merged delivery.Delivery, keep, ok bool,
) {
	if waiting.Version != "" || newer.Version != "" {
		return l.mergeUnsettled(waiting, newer, sent)
	}
	return l.mergeSettled(waiting, newer, sent)
}

func (l *Lane) mergeSettled(waiting, newer delivery.Delivery, sent bool) (
	merged delivery.Delivery, keep, ok bool,
) {
	takesIn := waiting.Refusals > 0 && !waiting.Undecided && newer.Undecided
	if waiting.Undecided != newer.Undecided && !takesIn {
		return delivery.Delivery{}, false, false
	}
	if takesIn {
		newer.Payload, newer.Stale = waiting.Payload, true
		// a rule's own actions are decided again, unless that would count the change twice
		newer.Undecided = l.actsNow(&waiting) && l.opts.Count == nil
	}
	d, keep, ok := delta.Merge(waiting.Delta, newer.Delta, sent)
	if ok && !keep {
		l.opts.Changes.Add(newer.Delta, trail.Void, l.dispatcher.opts.Clock.Now())
	}
	if !ok || !keep {
		return delivery.Delivery{}, keep, ok
	}
	merged = delivery.Delivery{
		Delta: d, Payload: newer.Payload, Undecided: newer.Undecided,
		Backoff: waiting.Backoff, Losses: waiting.Losses,
	}
	isNewer := d.Type == newer.Delta.Type && d.Old == newer.Delta.Old
	merged.Stale = l.opts.ReadsChange && !newer.Undecided && (newer.Stale || !isNewer)
	if sameEvent(d, waiting.Delta) {
		merged.Attempts, merged.Failures = waiting.Attempts, waiting.Failures
		merged.Refusals = waiting.Refusals
		merged.Answer, merged.Weighed = waiting.Answer, waiting.Weighed
	} else if takesIn {
		merged.Refusals = waiting.Refusals // more undecided deliveries may wait
	}
	return merged, true, true
}

// mergeQueued merges deliveries in the lane's queue. Those of groups stay apart: what is gathered
// was merged before.
func (l *Lane) mergeQueued(waiting, newer delivery.Delivery, sent bool) (
	merged delivery.Delivery, keep, ok bool,
) {
	if l.gathers() || len(waiting.Items)+len(newer.Items) > 0 {
		return delivery.Delivery{}, false, false
	}
	return l.merge(waiting, newer, sent)
}

// isPlain reports whether a delivery can go to the handler without any preparation.
func isPlain(d *delivery.Delivery) bool {
	return !d.Stale && !d.Undecided && d.Answer == nil && d.Refusals == 0
}

// size returns roughly how many bytes of memory a delivery takes. It counts objects in full, even
// if others share them.
func size(d *delivery.Delivery) int64 {
	const overhead = 512 // the delivery itself and its place in a queue
	size := overhead + d.Delta.Object.Size() + len(d.Payload) + sizeOfAnswer(d.Answer)
	if old := d.Delta.Old; old != nil {
		size += old.Size()
	}
	for i := range d.Items {
		item := &d.Items[i]
		size += overhead/2 + item.Delta.Object.Size() + len(item.Payload)
		if old := item.Delta.Old; old != nil {
			size += old.Size()
		}
	}
	return int64(size)
}
