// What is recorded of the waiting deliveries of a rule.

package state

import (
	"sync/atomic"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/state/records"
)

// DefaultMaxBytes limits a lane on disk if [LaneOptions] set no limit.
const DefaultMaxBytes = 1 << 30

// LaneOptions configure a Lane.
type LaneOptions struct {
	// Secret makes the Lane write deliveries without payload and answer. Of their objects it writes
	// only the identity.
	Secret bool
	// MaxBytes limits the lane on disk, in bytes as written. Room returns false beyond it. 0 means
	// DefaultMaxBytes.
	MaxBytes int64
}

// Lane keeps the waiting deliveries of one rule on disk. It is the store of the rule's queue. The
// queue gives each delivery a number and never reuses it. One goroutine at a time may call Put and
// Delete, between [Store.Begin] and [Store.End].
type Lane struct {
	store   *Store
	rule    string
	owner   records.Owner
	opts    LaneOptions
	dropped atomic.Bool

	unwritten      map[uint64]*unwrittenDelivery
	spare          map[uint64]*unwrittenDelivery // an empty map for reuse
	unwrittenTally tally
	numbers        watermarks

	disk tally // what is on disk, approximately

	// inLog is the id of the log that the lane was last written to, and earlier has the highest
	// numbers that the store and earlier logs may have. Only the goroutine that appends uses them.
	inLog   uint64
	earlier [2]uint64
}

var _ queue.Store[delta.Key, delivery.Delivery] = (*Lane)(nil)

// unwrittenDelivery is what the next flush writes under a number: a record, or its removal.
type unwrittenDelivery struct {
	key    delta.Key
	record records.Delivery
	size   int64
	gone   bool
	again  bool // the disk may hold a record with this number
}

// Lane returns the Lane of a rule. The first call makes it and fixes its options. Call [Lane.Keys]
// before anything else: until then the Lane does not know what is on disk.
func (s *Store) Lane(rule string, o LaneOptions) *Lane {
	owner := records.NewOwner(records.DeliveryPrefix, rule)
	clean := s.db.Load() == nil || s.isDropped(owner) // nothing on disk counts
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lanes[rule]; l != nil {
		return l
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	l := &Lane{
		store: s, rule: rule, owner: owner, opts: o,
		unwritten: make(map[uint64]*unwrittenDelivery),
	}
	if !clean {
		l.numbers.unknown()
	}
	s.lanes[rule] = l
	return l
}

// ForgetLane has Lane make a new Lane of a rule, perhaps with other options. The one before must not
// have been used yet.
func (s *Store) ForgetLane(rule string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lanes, rule)
}

// Put records a waiting delivery, or replaces its record. It returns the number of the cut that the
// record belongs to, or 0 if nothing is recorded any more: see [Store.Await].
func (l *Lane) Put(n uint64, key delta.Key, r queue.Record[delivery.Delivery]) (cut uint64) {
	l.numbers.put(n)
	l.set(n, &unwrittenDelivery{
		key: key, record: r, size: sizeOf(&r.Value), again: l.numbers.mayBeWritten(n),
	})
	if !l.isRecording() {
		return 0
	}
	return l.store.number
}

func (l *Lane) isRecording() bool { return !l.dropped.Load() && !l.store.broken.Load() }

// Delete records that a delivery no longer waits. A delivery that was never written leaves nothing
// behind.
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
	if !l.isRecording() {
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

// Room reports whether the disk alone may hold a delivery of size bytes. It returns false if the
// disk is in trouble or too slow, or if the lane has reached its limit.
func (l *Lane) Room(size int64) bool {
	s := l.store
	return s.db.Load() != nil && !s.broken.Load() && s.health.isWell() &&
		s.unwrittenBytes()+size < maxUnwritten &&
		l.disk.bytes.Load()+l.unwrittenTally.bytes.Load()+size <= l.opts.MaxBytes
}

// forget clears what the lane knows about a store that no longer exists.
func (l *Lane) forget() {
	clear(l.unwritten)
	l.unwrittenTally.take()
	l.disk.take()
	l.numbers.reset()
	l.inLog = 0
}
