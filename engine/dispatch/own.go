package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/trail"
)

const (
	// maxUnknown bounds the unknown changes of one object. Further ones count as somebody else's.
	maxUnknown = 64
	// The dispatcher asks again about an unknown change after a quarter of its age, within these
	// bounds.
	minAskAgain = 5 * time.Millisecond
	maxAskAgain = 250 * time.Millisecond
)

// askAgainAfter returns when to ask again about an unknown change of an age.
func askAgainAfter(age time.Duration) time.Duration {
	return min(max(age/4, minAskAgain), maxAskAgain)
}

// owner says who made a change.
type owner int

const (
	others owner = iota
	ours
	unknown
)

// owned distinguishes a lane's own changes from others, with LaneOptions.Own. Everything that has
// to know who made a change asks here: Lane.Offer, merging, the groups, and each attempt.
//
// A change is unknown while the rule has a write to the object under way that began before the
// change came. Until that write ends, nobody knows who made the change. Unknown changes wait in
// the queue, in order. They are recorded like all others, but merged with nothing. The lane asks
// again when another change of the object comes, and before it delivers one. It drops changes that
// the rule made; the others become ordinary changes.
//
// A delivery has a Version as long as its change is unknown. The record does not say so. A store
// that loads a delivery gives it a Version again if Own says by then that the rule made the change.
// What Own does not know after a restart counts as somebody else's.
type owned struct {
	own     Own               // nil: all changes are others'
	matched func(delta.Delta) // may be nil
	changes *trail.Trail
	clock   clock.PassiveClock
	counts  *ownCounts
}

// ownCounts counts the changes that a rule may have made. A lane shares it with its successor.
type ownCounts struct {
	dropped atomic.Uint64

	mu      sync.Mutex        // a leaf: may be taken with the queue locked
	unknown map[delta.Key]int // the unknown changes of an object; guarded by mu
}

// ask returns who made the change of a delivery that has just come.
func (o *owned) ask(d *delivery.Delivery) owner {
	if d.Version != "" && o.own != nil {
		d.Writes = o.own.Begun()
	}
	return o.askAgain(d)
}

// askAgain returns who made the change of a delivery. The answer may be that nobody knows yet.
func (o *owned) askAgain(d *delivery.Delivery) owner {
	version := d.Version
	if version == "" || o.own == nil {
		return others
	}
	key := d.Delta.Key()
	// asked first: if the change is not Mine after that, it never will be
	writing := o.own.Writing(key, d.Writes)
	switch {
	case o.own.Mine(key, version):
		return ours
	case writing:
		return unknown
	}
	return others
}

// admit reports whether a change that has just come is to be queued. If not, the rule made it, and
// admit has counted that. It clears the Version unless the change is unknown. waiting returns how
// many changes of an object wait.
func (o *owned) admit(d *delivery.Delivery, waiting func(delta.Key) int) bool {
	if who := o.ask(d); who != others {
		key := d.Delta.Key()
		n := waiting(key)
		switch {
		case who == ours && (!isDeletion(d) || n == 0):
			o.drop(d)
			return false
		case o.counts.add(key, n):
			return true
		}
	}
	o.accept(d)
	return true
}

// resolve asks again who made the change of a delivery with a Version, which is about to be
// delivered. If others made it, it becomes an ordinary change. If the rule made it, resolve counts
// that, and the caller drops it.
func (o *owned) resolve(d *delivery.Delivery) owner {
	who := o.askAgain(d)
	switch who {
	case ours:
		o.disown(d)
	case others:
		o.counts.remove(d.Delta.Key(), 1)
		o.accept(d)
	}
	return who
}

// accept notes that the rule did not make a change, or that it receives it nevertheless.
func (o *owned) accept(d *delivery.Delivery) {
	d.Version = ""
	if o.matched != nil && !d.Undecided {
		o.matched(d.Delta)
	}
}

// disown notes that an unknown change turned out to be the rule's own.
func (o *owned) disown(d *delivery.Delivery) {
	o.counts.remove(d.Delta.Key(), 1)
	o.drop(d)
}

// drop counts a change that the lane drops because the rule made it.
func (o *owned) drop(d *delivery.Delivery) {
	o.counts.dropped.Add(1)
	o.changes.Add(d.Delta, trail.Own, o.clock.Now())
}

// dropped notes that a change that waited was dropped for want of room.
func (o *owned) dropped(d *delivery.Delivery) {
	if d.Version != "" {
		o.counts.remove(d.Delta.Key(), 1)
	}
}

// isDeletion reports whether the object is gone. A rule does not receive a deletion that it made
// itself, unless something of the object waits. Otherwise it would receive that as if the object
// still existed.
func isDeletion(d *delivery.Delivery) bool { return d.Delta.Type == delta.Deleted }

// add counts one more unknown change of an object, of which some changes wait. It returns false if
// there is no room for it.
func (c *ownCounts) add(key delta.Key, waiting int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Some may have been dropped, or left to the store, since they were counted. Besides those that
	// wait, one may be in flight.
	n := min(c.unknown[key], waiting+1)
	if n >= maxUnknown {
		return false
	}
	if c.unknown == nil {
		c.unknown = make(map[delta.Key]int)
	}
	c.unknown[key] = n + 1
	return true
}

// remove lowers the count of an object's unknown changes by n.
func (c *ownCounts) remove(key delta.Key, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := c.unknown[key] - n; left > 0 {
		c.unknown[key] = left
	} else {
		delete(c.unknown, key) // of a change that a restart has left, nobody has counted anything
	}
}
