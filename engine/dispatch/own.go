package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
)

const (
	// maxUnsettled is how many changes of one object may wait until it is known whose they are. What comes on top is taken for
	// somebody else's.
	maxUnsettled = 64
	// The head of an object's queue is looked at again after a quarter of its age, within these.
	minSettle = 5 * time.Millisecond
	maxSettle = 250 * time.Millisecond
)

// owned tells a lane's own changes from others, as LaneOptions.Own has it.
//
// As long as writes of the rule's to an object are under way that began before a change of it came, it is not known whose that
// change is. It is then unsettled: such changes wait in the queue, in order, recorded like all others, and are merged with nothing. Whose they are is asked again when another one
// comes and when they are to be delivered. Those that turn out to be the rule's own vanish, the others are ordinary changes from
// then on. That they were unsettled is not recorded: a change of the rule's own may come back to it after a restart, and
// under Every where it was left to the store for lack of memory.
type owned struct {
	own     Own
	dropped atomic.Uint64

	mu        sync.Mutex // taken with the queue locked, and takes nothing
	unsettled map[delta.Key]int
}

// owner is whose a change is.
type owner int

const (
	others owner = iota
	ours
	unsettled
)

// OwnChanges is how many changes were not delivered, ever, as the rule made them itself.
func (l *Lane) OwnChanges() uint64 { return l.owned.dropped.Load() }

// whose tells whose change a delivery is.
func (l *Lane) whose(d *delivery.Delivery) owner {
	version := d.Version
	if version == "" || l.own == nil {
		return others
	}
	key := d.Delta.Key()
	writing := l.own.Writing(key, d.Writes) // asked first: what is not Mine after that, never will be
	switch {
	case l.own.Mine(key, version):
		return ours
	case writing:
		return unsettled
	}
	return others
}

// admit tells whether a change with a Version is to wait for delivery. It keeps its Version if it is unsettled.
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

// ends tells whether of an object nothing is there any more. That the rule ended it itself is not told, but ends what waits of it:
// nobody is to hear of an object, as if it was there, that he has deleted.
func ends(d *delivery.Delivery) bool { return d.Delta.Type == delta.Deleted }

// unsettle counts one more of an object, if there may be.
func (l *Lane) unsettle(key delta.Key) bool {
	waiting, _ := l.queue.Waiting(key)
	o := &l.owned
	o.mu.Lock()
	defer o.mu.Unlock()
	// Some may have been dropped, or left to the store, since they were counted. Beside those that wait one may be looked at.
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

// settled counts fewer.
func (l *Lane) settled(key delta.Key, n int) {
	o := &l.owned
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unsettled[key] -= n; o.unsettled[key] <= 0 {
		delete(o.unsettled, key)
	}
}

// vanished is called when an unsettled change turned out to be the rule's own.
func (l *Lane) vanished(key delta.Key) {
	l.settled(key, 1)
	l.owned.dropped.Add(1)
}

// mergeUnsettled is merge where one or both are unsettled, as far as was known before.
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
