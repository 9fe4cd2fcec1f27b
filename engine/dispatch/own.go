package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/trail"
)

const (
	// maxUnsettled bounds the unsettled changes of one object. Further ones count as somebody
	// else's.
	maxUnsettled = 64
	// The dispatcher checks an unsettled change again after a quarter of its age, within these
	// bounds.
	minSettle = 5 * time.Millisecond
	maxSettle = 250 * time.Millisecond
)

// owned distinguishes a lane's own changes from others, with LaneOptions.Own.
//
// A change is unsettled while the rule has a write to the object under way that began before the
// change came. Until that write ends, nobody knows who made the change. Unsettled changes wait in
// the queue, in order. They are recorded like all others, but merged with nothing. The lane checks
// them again when another change of the object comes, and before it delivers one. It drops changes
// that the rule made; the others become ordinary changes.
//
// The record does not say that a change is unsettled. So the rule may receive a change of its own
// after a restart. Under Every, the same may happen to a change that did not fit into memory.
//
// A lane shares it with its successor.
type owned struct {
	dropped atomic.Uint64

	mu        sync.Mutex        // a leaf: may be taken with the queue locked
	unsettled map[delta.Key]int // guarded by mu
}

// tally counts for how many events the rule's own actions were performed, and for how many there were
// none. A lane shares it with its successor.
type tally struct{ acted, idle atomic.Uint64 }

func (t *tally) add(did trail.Verdict) {
	switch did {
	case trail.Acted, trail.Pruned, trail.Unchanged, trail.Vanished:
		t.acted.Add(1)
	case trail.Idle:
		t.idle.Add(1)
	}
}

// Acted returns for how many events the rule has performed actions of its own, and for how many it had
// none to perform.
func (l *Lane) Acted() (acted, idle uint64) { return l.acted.acted.Load(), l.acted.idle.Load() }

// owner says who made a change.
type owner int

const (
	others owner = iota
	ours
	unsettled
)

// OwnChanges returns how many changes the lane has dropped because the rule made them.
func (l *Lane) OwnChanges() uint64 { return l.owned.dropped.Load() }

// whose returns who made the change of a delivery.
func (l *Lane) whose(d *delivery.Delivery) owner {
	version := d.Version
	if version == "" || l.own == nil {
		return others
	}
	key := d.Delta.Key()
	// asked first: if the change is not Mine after that, it never will be
	writing := l.own.Writing(key, d.Writes)
	switch {
	case l.own.Mine(key, version):
		return ours
	case writing:
		return unsettled
	}
	return others
}

// admit reports whether a change with a Version is to be queued. It clears the Version unless the
// change is unsettled.
func (l *Lane) admit(d *delivery.Delivery) bool {
	if l.own != nil {
		d.Writes = l.own.Begun()
	}
	key := d.Delta.Key()
	switch l.whose(d) {
	case ours:
		if !ends(d) || l.waiting(key) == 0 {
			l.disown(d)
			return false
		}
		if l.unsettle(key) {
			return true
		}
	case unsettled:
		if l.unsettle(key) {
			return true
		}
	}
	l.foreign(d)
	return true
}

// foreign notes that the rule has not made a change, or that it receives it nevertheless.
func (l *Lane) foreign(d *delivery.Delivery) {
	d.Version = ""
	if l.opts.Matched != nil && !d.Undecided {
		l.opts.Matched(d.Delta)
	}
}

// ends reports whether the object is gone. A rule does not receive a deletion that it made itself,
// unless something of the object waits. Otherwise it would receive that as if the object still
// existed.
func ends(d *delivery.Delivery) bool { return d.Delta.Type == delta.Deleted }

// unsettle counts one more unsettled change of an object, and reports whether there is room for it.
func (l *Lane) unsettle(key delta.Key) bool {
	waiting := l.waiting(key)
	o := l.owned
	o.mu.Lock()
	defer o.mu.Unlock()
	// Some may have been dropped, or left to the store, since they were counted. Besides those that
	// wait, one may be in flight.
	n := min(o.unsettled[key], waiting+1)
	if n >= maxUnsettled {
		return false
	}
	if o.unsettled == nil {
		o.unsettled = make(map[delta.Key]int)
	}
	o.unsettled[key] = n + 1
	return true
}

// settled lowers the count of an object's unsettled changes by n.
func (l *Lane) settled(key delta.Key, n int) {
	o := l.owned
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unsettled[key] -= n; o.unsettled[key] <= 0 {
		delete(o.unsettled, key)
	}
}

// vanished notes that an unsettled change turned out to be the rule's own.
func (l *Lane) vanished(d *delivery.Delivery) {
	l.settled(d.Delta.Key(), 1)
	l.disown(d)
}

// disown counts a change that the lane drops because the rule made it.
func (l *Lane) disown(d *delivery.Delivery) {
	l.owned.dropped.Add(1)
	l.opts.Changes.Add(d.Delta, trail.Own, l.dispatcher.opts.Clock.Now())
}

// mergeUnsettled merges two deliveries if one or both were unsettled at the last check.
func (l *Lane) mergeUnsettled(waiting, newer delivery.Delivery, sent bool) (
	merged delivery.Delivery, keep, ok bool,
) {
	key := newer.Delta.Key()
	first, second := l.whose(&waiting), l.whose(&newer)
	switch {
	case first == ours && second == ours:
		l.vanished(&waiting)
		l.vanished(&newer)
		return delivery.Delivery{}, false, true
	case first == ours && !ends(&waiting):
		l.vanished(&waiting)
		return newer, true, true
	case second == ours && !ends(&newer):
		l.vanished(&newer)
		return waiting, true, true
	case first == unsettled || second == unsettled:
		return delivery.Delivery{}, false, false
	}
	var were []delivery.Delivery
	for _, d := range []*delivery.Delivery{&waiting, &newer} {
		if d.Version != "" {
			were = append(were, *d)
			d.Version = ""
		}
	}
	if merged, keep, ok = l.mergeSettled(waiting, newer, sent); ok {
		l.settled(key, len(were))
		for i := range were {
			l.foreign(&were[i])
		}
	}
	if second == ours && waiting.Answer.IsAcknowledged() {
		merged.Answer = waiting.Answer // the handler has no news, but the own actions must not wait
	}
	return merged, keep, ok
}
