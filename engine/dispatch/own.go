package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
)

const (
	// maxUnsettled bounds the changes of one object that wait until it is known whose they are. Those
	// beyond it are taken for somebody else's.
	maxUnsettled = 64
	// An unsettled change is looked at again after a quarter of its age, within these bounds.
	minSettle = 5 * time.Millisecond
	maxSettle = 250 * time.Millisecond
)

// owned tells a lane's own changes from others, by LaneOptions.Own.
//
// A change is unsettled as long as a write of the rule to the object is under way that began before the
// change came: nobody knows then whose it is. Unsettled changes wait in the queue, in order, and are
// recorded like all others. They are merged with nothing. The lane asks again when another change of the
// object comes, and before it delivers one. Changes that the rule made vanish; the others are ordinary
// from then on.
//
// It is not recorded that a change is unsettled. So the rule may be told of a change of its own after a
// restart, and under Every if there was no memory for it.
type owned struct {
	own     Own
	dropped atomic.Uint64

	mu        sync.Mutex        // taken with the queue locked; takes nothing itself
	unsettled map[delta.Key]int // guarded by mu
}

// owner says who made a change.
type owner int

const (
	others owner = iota
	ours
	unsettled
)

// OwnChanges returns how many changes were not delivered, ever, because the rule made them.
func (l *Lane) OwnChanges() uint64 { return l.owned.dropped.Load() }

// whose returns who made the change of a delivery.
func (l *Lane) whose(d *delivery.Delivery) owner {
	version := d.Version
	if version == "" || l.own == nil {
		return others
	}
	key := d.Delta.Key()
	writing := l.own.Writing(key, d.Writes) // asked first: a change that is not Mine after that never will be
	switch {
	case l.own.Mine(key, version):
		return ours
	case writing:
		return unsettled
	}
	return others
}

// admit reports whether a change with a Version is to be queued. It clears the Version unless the change
// is unsettled.
func (l *Lane) admit(d *delivery.Delivery) bool {
	if l.own != nil {
		d.Writes = l.own.Begun()
	}
	key := d.Delta.Key()
	switch l.whose(d) {
	case ours:
		if inMemory, away := l.queue.Waiting(key); !ends(d) || inMemory+away == 0 {
			l.owned.dropped.Add(1)
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
	d.Version = ""
	return true
}

// ends reports whether the object is gone. A rule is not told of a deletion that it made itself, unless
// something of the object waits: the rule must not be told of that as if the object was still there.
func ends(d *delivery.Delivery) bool { return d.Delta.Type == delta.Deleted }

// unsettle counts one more unsettled change of an object, and reports whether there is room for it.
func (l *Lane) unsettle(key delta.Key) bool {
	waiting, _ := l.queue.Waiting(key)
	o := &l.owned
	o.mu.Lock()
	defer o.mu.Unlock()
	// Some may have been dropped, or left to the store, since they were counted. One more than those that
	// wait may be in flight.
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

// settled counts n fewer.
func (l *Lane) settled(key delta.Key, n int) {
	o := &l.owned
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unsettled[key] -= n; o.unsettled[key] <= 0 {
		delete(o.unsettled, key)
	}
}

// vanished counts an unsettled change that turned out to be the rule's own.
func (l *Lane) vanished(key delta.Key) {
	l.settled(key, 1)
	l.owned.dropped.Add(1)
}

// mergeUnsettled merges two deliveries of which one or both were unsettled when they were last looked at.
func (l *Lane) mergeUnsettled(waiting, newer delivery.Delivery, sent bool) (merged delivery.Delivery, keep, ok bool) {
	key := newer.Delta.Key()
	first, second := l.whose(&waiting), l.whose(&newer)
	switch {
	case first == ours && second == ours:
		l.vanished(key)
		l.vanished(key)
		return delivery.Delivery{}, false, true
	case first == ours && !ends(&waiting):
		l.vanished(key)
		return newer, true, true
	case second == ours && !ends(&newer):
		l.vanished(key)
		return waiting, true, true
	case first == unsettled || second == unsettled:
		return delivery.Delivery{}, false, false
	}
	n := 0
	for _, d := range []*delivery.Delivery{&waiting, &newer} {
		if d.Version != "" {
			d.Version = ""
			n++
		}
	}
	if merged, keep, ok = l.mergeSettled(waiting, newer, sent); ok {
		l.settled(key, n)
	}
	return merged, keep, ok
}
