package state

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delta"
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

// Delivery is a change on its way to a handler. Its fields are those of package dispatch, in the same order.
type Delivery struct {
	Delta   delta.Delta
	Payload json.RawMessage
	Answer  json.RawMessage
	Stale   bool

	Undecided bool

	Attempts, Failures, Backoff, Losses int
	Sent, Redriven                      bool

	Since, Due time.Time
}

// Lane keeps the deliveries of one rule that wait. Each has a number, as package queue gives them, which is never given to
// another. Put and Delete are called between [Store.Begin] and [Store.End], by one goroutine at a time.
type Lane struct {
	store   *Store
	rule    string
	owner   owner
	opts    LaneOptions
	dropped atomic.Bool

	unwritten      map[uint64]*waiting
	spare          map[uint64]*waiting // emptied
	unwrittenTally tally
	numbers        watermarks

	disk tally // what is on disk, about
}

// waiting is a delivery that is not written; without one it says that what is on disk must go.
type waiting struct {
	key      delta.Key
	delivery Delivery
	size     int64
	gone     bool
	again    bool // one of that number may be on disk
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
	l := &Lane{store: s, rule: rule, owner: owner, opts: o, unwritten: make(map[uint64]*waiting)}
	if !clean {
		l.numbers.unknown()
	}
	s.lanes[rule] = l
	return l
}

// Put records a delivery that waits, or what has become of it.
func (l *Lane) Put(n uint64, key delta.Key, d Delivery) {
	l.numbers.put(n)
	l.set(n, &waiting{key: key, delivery: d, size: sizeOf(&d), again: l.numbers.mayBeWritten(n)})
}

// Delete records that a delivery waits no more. One that was not written yet leaves nothing behind.
func (l *Lane) Delete(n uint64, key delta.Key) {
	if l.numbers.mayBeWritten(n) {
		l.set(n, &waiting{key: key, size: recordCost, gone: true, again: true})
		return
	}
	if was, ok := l.unwritten[n]; ok {
		delete(l.unwritten, n)
		l.count(-1, -was.size)
	}
}

func (l *Lane) set(n uint64, w *waiting) {
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
