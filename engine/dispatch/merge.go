package dispatch

import (
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
)

// merge merges as delta.Merge says, and keeps the account of attempts. The queue calls it with its lock held.
//
// What is decided and what is not stay apart, as it is not known whether there will be anything to merge. But what was
// refused because of what came after it takes that in, as renewing it would.
func (l *Lane) merge(waiting, newer delivery.Delivery, sent bool) (merged delivery.Delivery, keep, ok bool) {
	if waiting.Version != "" || newer.Version != "" {
		return l.mergeUnsettled(waiting, newer, sent)
	}
	return l.mergeSettled(waiting, newer, sent)
}

func (l *Lane) mergeSettled(waiting, newer delivery.Delivery, sent bool) (merged delivery.Delivery, keep, ok bool) {
	takesIn := waiting.Refusals > 0 && !waiting.Undecided && newer.Undecided
	if waiting.Undecided != newer.Undecided && !takesIn {
		return delivery.Delivery{}, false, false
	}
	if takesIn {
		newer.Payload, newer.Stale = waiting.Payload, true
		newer.Undecided = l.opts.ActsItself // what a rule does itself is decided anew
	}
	d, keep, ok := delta.Merge(waiting.Delta, newer.Delta, sent)
	if !ok || !keep {
		return delivery.Delivery{}, keep, ok
	}
	merged = delivery.Delivery{
		Delta: d, Payload: newer.Payload, Undecided: newer.Undecided, Backoff: waiting.Backoff, Losses: waiting.Losses,
	}
	isNewer := d.Type == newer.Delta.Type && d.Old == newer.Delta.Old
	merged.Stale = l.opts.ReadsChange && !newer.Undecided && (newer.Stale || !isNewer)
	if sameEvent(d, waiting.Delta) {
		merged.Attempts, merged.Failures, merged.Refusals = waiting.Attempts, waiting.Failures, waiting.Refusals
		merged.Answer, merged.Weighed = waiting.Answer, waiting.Weighed
	} else if takesIn {
		merged.Refusals = waiting.Refusals // more of them may wait
	}
	return merged, true, true
}

// isPlain reports whether nothing of a delivery is to be made before it is handed over.
func isPlain(d *delivery.Delivery) bool {
	return !d.Stale && !d.Undecided && d.Answer == nil && d.Refusals == 0
}

// size returns roughly how many bytes a delivery holds on to. Objects that it shares with others count for each.
func size(d *delivery.Delivery) int64 {
	const overhead = 512 // the delivery itself and its place in a queue
	size := overhead + d.Delta.Object.Size() + len(d.Payload) + sizeOfAnswer(d.Answer)
	if old := d.Delta.Old; old != nil {
		size += old.Size()
	}
	return int64(size)
}
