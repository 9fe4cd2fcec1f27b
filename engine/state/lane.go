package state

import (
	"sync/atomic"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
)

// DefaultMaxBytes is what a lane may have on disk if [LaneOptions] do not say.
const DefaultMaxBytes = 1 << 30

// LaneOptions are what a Lane is made with.
type LaneOptions struct {
	// Secret has deliveries be written without payload and answer, and their objects as their identity alone.
	Secret bool
	// MaxBytes is how much may be on disk, as written, for Room to say yes. 0: DefaultMaxBytes.
	MaxBytes int64
}

// laneRecord is a delivery as a queue records it.
type laneRecord = queue.Record[delivery.Delivery]

// Lane keeps the deliveries of one rule that wait, and is the store of the rule's queue. Each delivery has a number that the
// queue gave it, and no other ever has. Put and Delete are called between [Store.Begin] and [Store.End], by one goroutine at
// a time.
type Lane struct {
	store   *Store
	rule    string
	owner   owner
	opts    LaneOptions
	dropped atomic.Bool

	unwritten      map[uint64]*unwrittenDelivery
	spare          map[uint64]*unwrittenDelivery // emptied
	unwrittenTally tally
	numbers        watermarks

	disk tally // what is on disk, about
}

var _ queue.Store[delta.Key, delivery.Delivery] = (*Lane)(nil)

// unwrittenDelivery is what is to be written under a number: a record, or that there is none any more.
type unwrittenDelivery struct {
	key    delta.Key
	record laneRecord
	size   int64
	gone   bool
	again  bool // one of that number may be on disk
}

// Lane gives the Lane of a rule, which it makes the first time. The options count that time. [Lane.Keys]
// should be called before anything else: until then the Lane does not know what is on disk.
func (s *Store) Lane(rule string, o LaneOptions) *Lane {
	owner := newOwner(deliveryPrefix, rule)
	clean := s.db.Load() == nil || s.isDropped(owner) // nothing that is on disk counts
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lanes[rule]; l != nil {
		return l
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	l := &Lane{store: s, rule: rule, owner: owner, opts: o, unwritten: make(map[uint64]*unwrittenDelivery)}
	if !clean {
		l.numbers.unknown()
	}
	s.lanes[rule] = l
	return l
}

// Put records a delivery that waits, or what has become of it.
func (l *Lane) Put(n uint64, key delta.Key, r queue.Record[delivery.Delivery]) {
	l.numbers.put(n)
	l.set(n, &unwrittenDelivery{key: key, record: r, size: sizeOf(&r.Value), again: l.numbers.mayBeWritten(n)})
}

// Delete records that a delivery waits no more. One that was not written yet leaves nothing behind.
func (l *Lane) Delete(n uint64, key delta.Key) {
	if l.numbers.mayBeWritten(n) {
		l.set(n, &unwrittenDelivery{key: key, size: recordCost, gone: true, again: true})
		return
	}
	if was, ok := l.unwritten[n]; ok {
		delete(l.unwritten, n)
		l.count(-1, -was.size)
	}
}

func (l *Lane) set(n uint64, w *unwrittenDelivery) {
	if l.dropped.Load() || l.store.broken.Load() {
		return
	}
	was, ok := l.unwritten[n]
	l.unwritten[n] = w
	if ok {
		l.count(0, w.size-was.size)
	} else {
		l.count(1, w.size)
	}
}

func (l *Lane) count(records, bytes int64) {
	l.unwrittenTally.add(records, bytes)
	l.store.unwritten.add(records, bytes)
}

// Room tells whether a delivery of so many bytes may be left to the disk alone: the disk does its work and keeps up, and
// there is room on it for this lane.
func (l *Lane) Room(size int64) bool {
	s := l.store
	return s.db.Load() != nil && !s.broken.Load() && s.health.isWell() && s.unwrittenBytes()+size < maxUnwritten &&
		l.disk.bytes.Load()+l.unwrittenTally.bytes.Load()+size <= l.opts.MaxBytes
}

// forget empties the lane of what it has learned of a store that is no more.
func (l *Lane) forget() {
	clear(l.unwritten)
	l.unwrittenTally.take()
	l.disk.take()
	l.numbers.reset()
}
