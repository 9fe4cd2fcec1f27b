package dispatch

import (
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/trail"
)

// merging merges deliveries of a lane that wait for one object.
type merging struct {
	traits traits
	owned  *owned
}

// mergeQueued merges deliveries in the lane's queue, which calls it with its lock held. Those of
// groups stay apart: what is gathered was merged before.
func (m merging) mergeQueued(waiting, newer delivery.Delivery, sent bool) (
	merged delivery.Delivery, keep, ok bool,
) {
	if m.traits.gathers || len(waiting.Items)+len(newer.Items) > 0 {
		return delivery.Delivery{}, false, false
	}
	return m.merge(waiting, newer, sent)
}

// merge merges as delta.Merge does, and carries the counts of attempts over.
//
// Decided and undecided deliveries do not merge, because nobody knows yet whether the undecided one
// will be delivered. There is one exception: a delivery whose actions were refused, because the
// object has changed since, merges with that change. Renewing it would have the same effect.
func (m merging) merge(waiting, newer delivery.Delivery, sent bool) (
	merged delivery.Delivery, keep, ok bool,
) {
	if waiting.Version != "" || newer.Version != "" {
		return m.mergeUnknown(waiting, newer, sent)
	}
	return m.mergeKnown(waiting, newer, sent)
}

// mergeUnknown merges two deliveries if the maker of one or both was unknown so far.
func (m merging) mergeUnknown(waiting, newer delivery.Delivery, sent bool) (
	merged delivery.Delivery, keep, ok bool,
) {
	o, key := m.owned, newer.Delta.Key()
	first, second := o.askAgain(&waiting), o.askAgain(&newer)
	switch {
	case first == ours && second == ours:
		o.disown(&waiting)
		o.disown(&newer)
		return delivery.Delivery{}, false, true
	case first == ours && !isDeletion(&waiting):
		o.disown(&waiting)
		return newer, true, true
	case second == ours && !isDeletion(&newer):
		o.disown(&newer)
		return waiting, true, true
	case first == unknown || second == unknown:
		return delivery.Delivery{}, false, false
	}
	var were []delivery.Delivery
	for _, d := range []*delivery.Delivery{&waiting, &newer} {
		if d.Version != "" {
			were = append(were, *d)
			d.Version = ""
		}
	}
	if merged, keep, ok = m.mergeKnown(waiting, newer, sent); ok {
		o.counts.remove(key, len(were))
		for i := range were {
			o.accept(&were[i])
		}
	}
	if second == ours && waiting.Answer.IsAcknowledged() {
		merged.Answer = waiting.Answer // the handler has no news, but the own actions must not wait
	}
	return merged, keep, ok
}

func (m merging) mergeKnown(waiting, newer delivery.Delivery, sent bool) (
	merged delivery.Delivery, keep, ok bool,
) {
	takesIn := waiting.Refusals > 0 && !waiting.Undecided && newer.Undecided
	if waiting.Undecided != newer.Undecided && !takesIn {
		return delivery.Delivery{}, false, false
	}
	if takesIn {
		newer.Payload, newer.Stale = waiting.Payload, true
		// a rule's own actions are decided again, unless that would count the change twice
		newer.Undecided = m.traits.actsNow(&waiting) && !m.traits.counts
	}
	// What was offered for the rule's own actions alone is part of a change: it performs all of them.
	isOffered := waiting.Answer.IsAcknowledged() && waiting.Delta.Round == delta.Known
	if isOffered && newer.Delta.Type == delta.Updated &&
		newer.Delta.Object.UID() == waiting.Delta.Object.UID() {
		newer.Backoff, newer.Losses = waiting.Backoff, waiting.Losses
		if takesIn {
			newer.Refusals = waiting.Refusals
		}
		return newer, true, true
	}
	d, keep, ok := delta.Merge(waiting.Delta, newer.Delta, sent)
	if ok && !keep {
		m.owned.changes.Add(newer.Delta, trail.Void, m.owned.clock.Now())
	}
	if !ok || !keep {
		return delivery.Delivery{}, keep, ok
	}
	merged = delivery.Delivery{
		Delta: d, Payload: newer.Payload, Undecided: newer.Undecided,
		Backoff: waiting.Backoff, Losses: waiting.Losses,
	}
	isNewer := d.Type == newer.Delta.Type && d.Old == newer.Delta.Old
	merged.Stale = m.traits.readsChange && !newer.Undecided && (newer.Stale || !isNewer)
	if sameEvent(d, waiting.Delta) {
		merged.Attempts, merged.Failures = waiting.Attempts, waiting.Failures
		merged.Refusals = waiting.Refusals
		merged.Answer, merged.Weighed = waiting.Answer, waiting.Weighed
		if merged.Resync = waiting.Resync; newer.Delta.Round != 0 {
			merged.Resync = newer.Delta.Round
		}
	} else if takesIn {
		merged.Refusals = waiting.Refusals // more undecided deliveries may wait
	}
	return merged, true, true
}

// isAnother reports whether merging made another event of a waiting delivery. It does not if the
// newer change is a resync of an unchanged object, or turned out to be the rule's own. A rule that
// changes its object with each attempt would otherwise make the next attempt early for ever.
func isAnother(waiting, merged delivery.Delivery) bool {
	return !sameEvent(waiting.Delta, merged.Delta)
}

// sameEvent reports whether two deltas have the same ID.
func sameEvent(a, b delta.Delta) bool {
	return a.Type == b.Type && a.Round == b.Round && a.Occasion == b.Occasion &&
		a.Object.UID() == b.Object.UID() && a.Object.ResourceVersion() == b.Object.ResourceVersion()
}
