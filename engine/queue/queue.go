// Package queue holds values until they have been dealt with: in order and one at a time per key, keys in parallel, with
// merging of what waits, retries after a delay, and bounds.
//
// A key's values are handed out by [Queue.Take] in the order in which they were added. The key is then in flight, and
// nothing more of it is handed out, until [Queue.Done] or [Queue.Retry]. Keys that are ready come first in, first out; a
// key that had its turn goes behind the others.
//
// Values that wait for one key are merged by [Options.Merge], a newer one into the last that waits; what is in flight
// never is. A value that is due for a retry waits in front of its key's others and merges with them. It keeps its place
// and its delay, so that a key that fails does not come back sooner because it changes often. How many values wait is
// thus bounded by the number of keys, times as many as Merge leaves side by side, times MaxPerKey at the very worst. With
// [Options.Every] each value is kept instead, up to bounds over the whole queue; past them newer values are merged all
// the same. That shortens history but never loses the last value of a key, and is counted.
//
// With a [Store] there is a record of each value that waits or is in flight, under its number. Taking a value writes
// nothing: what is in flight is recorded as it waits. Under Every a value that there is no memory for goes away, to the store
// alone, if that has room, and is merged only if it has not. What is away of a key is what [Queue.Restore] told of, or went
// away since; of it the queue holds a few numbers for each key. It comes between what waits in memory in front of it and what
// waits behind, and [Queue.Refill] loads it, a few values at a time, when nothing is left in front: for the keys that need it,
// in turn, and no more than is soon taken. A key that waits for a retry holds one value that was loaded, so that keys that fail
// do not fill the memory. Past the bounds of Every the memory thus has at most one value for each key, and about a megabyte.
//
// The queue knows nothing of what values mean: what an attempt is, how long to back off and when to give up is its user's
// affair, and kept within the values. It starts no goroutine; one timer serves all delays. Its memory follows what it
// holds: values and keys are linked, not kept in slices, and the map and the heap move to smaller ones when they have
// emptied to a quarter.
package queue

import (
	"math"
	"sync"
	"time"
)

// firstNumber is the first number of a value that is not redriven.
const firstNumber = 1 << 62

// minShrink is below how many elements memory is not worth giving back.
const minShrink = 1024

// Queue is made by New. It is safe for concurrent use.
type Queue[K comparable, V any] struct {
	opts Options[K, V]

	mu     sync.Mutex
	closed bool
	doubt  bool               // see Doubt
	keys   map[K]*entry[K, V] // those with a value that waits or is in flight
	peak   int                // the most keys since the map was made
	ready  list[*entry[K, V]]
	hungry list[*entry[K, V]] // keys whose next values are in the store alone
	supply int64              // bytes of what was loaded and waits, of the keys that are ready
	delays delays[K, V]
	turn   uint64      // counts delays
	timer  *time.Timer // made at the first delay
	armed  time.Time   // when the timer fires; zero if it does not

	number   uint64 // the last that was given to a value
	redriven uint64 // the last that was given to one that is redriven

	age       list[*value[V]] // what waits or is in flight and was never away, in the order in which it was added
	past      past[K, V]      // the rest
	waiting   int
	bytes     int64
	awayItems int
	awayBytes int64
	inFlight  int
	shortened uint64
	dropped   uint64
}

// Item is a value that was handed out.
type Item[K comparable, V any] struct {
	Key   K
	Value V
	// Since is when the value was added; of a merged one, when the first was.
	Since time.Time
	// Redriven says that Redrive added it, in this life of the program or an earlier one.
	Redriven bool
}

// Stats tells what a Queue holds.
type Stats struct {
	Waiting   int           // values that wait in memory, for their turn or for a retry
	Bytes     int64         // their size
	Away      int           // values beside them that are in the store alone
	AwayBytes int64         // their size
	InFlight  int           // keys in flight
	Delayed   int           // keys that wait for a retry, or to be loaded after that failed
	OldestAge time.Duration // of the oldest value that waits or is in flight
	Shortened uint64        // values merged under Every, because of its bounds or by Shorten, ever
	Dropped   uint64        // values lost because of MaxPerKey, or because the store lost them, ever
}

// New makes an empty Queue.
func New[K comparable, V any](o Options[K, V]) *Queue[K, V] {
	if o.Merge == nil {
		o.Merge = func(_, newer V, _ bool) (V, bool, bool) { return newer, true, false }
	}
	if o.Size == nil {
		o.Size = func(V) int64 { return 0 }
	}
	if o.MaxItems <= 0 {
		o.MaxItems = DefaultMaxItems
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxPerKey <= 0 {
		o.MaxPerKey = DefaultMaxPerKey
	}
	if o.MaxDelay <= 0 {
		o.MaxDelay = math.MaxInt64
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Queue[K, V]{opts: o, keys: make(map[K]*entry[K, V]), number: firstNumber - 1}
}

// Add puts v behind what waits for key, or merges it with the last of that. It never blocks.
func (q *Queue[K, V]) Add(key K, v V) { q.notify(q.add(key, v)) }

func (q *Queue[K, V]) add(key K, v V) (n news) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return news{}
	}
	lost := q.shortened + q.dropped
	defer func() { n.crowded = q.shortened+q.dropped > lost }()
	e := q.entry(key)
	size := q.opts.Size(v)
	full := q.opts.Every && (q.waiting >= q.opts.MaxItems || q.bytes+size > q.opts.MaxBytes)
	if full && q.leaveToStore(e, v, size) {
		return q.news(q.settle(e))
	}
	if last := e.back(); last != nil && (full || !q.opts.Every) {
		if q.merge(e, last.item, v) {
			if q.opts.Every {
				q.shortened++
			}
			return q.news(q.settle(e))
		}
		if e.length >= q.opts.MaxPerKey {
			q.dropOldest(e)
		}
	}
	val := q.newValue(v, q.nextNumber(), size)
	val.sent = q.doubt
	q.wait(e, val, nil)
	if e.away.open() && e.away.behind == nil {
		e.away.behind = &val.place
	}
	q.record(e, val)
	return q.news(q.settle(e))
}

// Doubt says whether what is added from now on may have been handed out before, by a program that was killed before that was
// recorded. It is merged accordingly.
func (q *Queue[K, V]) Doubt(on bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.doubt = on
}

// Redrive hands out v, which was given up before, once more: as it is, never merged, and before all that waits for key.
// Whether newer values have been dealt with in the meantime is for the caller to know. ok is false if the queue is closed.
func (q *Queue[K, V]) Redrive(key K, v V) (ok bool) {
	news, ok := q.redrive(key, v)
	q.notify(news)
	return ok
}

func (q *Queue[K, V]) redrive(key K, v V) (_ news, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return news{}, false
	}
	e := q.entry(key)
	val := q.newValue(v, q.nextRedriven(), q.opts.Size(v))
	val.sent, val.redriven = true, true
	if e.away.open() && e.away.after < firstNumber {
		e.away.redriven = append(e.away.redriven, val.n)
	}
	q.wait(e, val, e.afterRedriven())
	q.record(e, val)
	return q.news(q.settle(e)), true
}

// Take hands out the first value of the key that has been ready the longest. The key is in flight until Done or Retry is
// called. If ok is false nothing is ready; Options.Ready will tell.
func (q *Queue[K, V]) Take() (item Item[K, V], ok bool) {
	item, ok, news := q.take()
	q.notify(news)
	return item, ok
}

func (q *Queue[K, V]) take() (item Item[K, V], ok bool, _ news) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ready.front == nil {
		return item, false, news{}
	}
	e := q.ready.front.item
	q.unready(e)
	val := e.waiting.front.item
	q.leave(e, val)
	e.inFlight = val
	q.inFlight++
	return Item[K, V]{Key: e.key, Value: val.v, Since: val.since, Redriven: val.redriven}, true, q.news(false)
}

// Done says that what is in flight for key has been dealt with. For a key that is not in flight it does nothing.
func (q *Queue[K, V]) Done(key K) { q.notify(q.done(key)) }

func (q *Queue[K, V]) done(key K) news {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[key]
	if e == nil || e.inFlight == nil {
		return news{}
	}
	q.end(e, q.land(e))
	return q.news(q.settle(e))
}

// Retry puts what is in flight for key back in front of what waits for it, as v, to be handed out again after a delay.
// For a key that is not in flight it does nothing.
func (q *Queue[K, V]) Retry(key K, v V, after time.Duration) {
	q.notify(q.putBack(key, v, after, true, false))
}

// Shorten is Retry, but what waits behind is merged under Every as well, and counted as Shortened: for a value that cannot be
// dealt with any more for what came after it.
func (q *Queue[K, V]) Shorten(key K, v V, after time.Duration) {
	q.notify(q.putBack(key, v, after, true, true))
}

// Postpone is Retry for what was taken and not used: it counts as handed out only if it was before, and its record stays as it
// is unless something is merged into it.
func (q *Queue[K, V]) Postpone(key K, v V, after time.Duration) {
	q.notify(q.putBack(key, v, after, false, false))
}

func (q *Queue[K, V]) putBack(key K, v V, after time.Duration, used, shorten bool) news {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[key]
	if e == nil || e.inFlight == nil {
		return news{}
	}
	val := q.land(e)
	val.v, val.size, val.sent, val.rewritten = v, q.opts.Size(v), val.sent || used, true
	waits := true
	if val.redriven {
		q.wait(e, val, e.waiting.front)
	} else {
		q.wait(e, val, e.afterRedriven())
		waits = q.mergeBehind(e, val, shorten || !q.opts.Every)
	}
	if after > 0 && (e.waiting.front != nil || e.away.open()) {
		q.delay(e, after)
		q.unload(e)
	}
	if waits && used {
		q.record(e, val)
	}
	return q.news(q.settle(e))
}

// Rewrite puts v in the place of what is in flight for key, and records it, so that it is v that is found after a restart. For
// a key that is not in flight it does nothing.
func (q *Queue[K, V]) Rewrite(key K, v V) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[key]
	if e == nil || e.inFlight == nil {
		return
	}
	val := e.inFlight
	val.v, val.size, val.rewritten = v, q.opts.Size(v), true
	q.record(e, val)
}

// Waiting is how many values wait for key, in memory and in the store alone.
func (q *Queue[K, V]) Waiting(key K) (here, away int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys[key]
	switch {
	case e == nil:
		return 0, 0
	case e.away == nil:
		return e.length, 0
	}
	return e.length, e.away.count
}

// Stats tells what the queue holds.
func (q *Queue[K, V]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{
		Waiting: q.waiting, Bytes: q.bytes, Away: q.awayItems, AwayBytes: q.awayBytes, InFlight: q.inFlight, Delayed: len(q.delays),
		Shortened: q.shortened, Dropped: q.dropped,
	}
	if oldest := q.oldest(); !oldest.IsZero() {
		s.OldestAge = max(q.opts.Now().Sub(oldest), 0)
	}
	return s
}

// Close forgets all values, but not their records, and stops the timer. Nothing is taken from a closed queue, and nothing
// enters it.
func (q *Queue[K, V]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.keys, q.peak = make(map[K]*entry[K, V]), 0
	q.ready, q.hungry, q.age, q.delays, q.past = list[*entry[K, V]]{}, list[*entry[K, V]]{}, list[*value[V]]{}, nil, nil
	q.waiting, q.bytes, q.awayItems, q.awayBytes, q.inFlight, q.supply = 0, 0, 0, 0, 0, 0
}

// news is what there is to tell after a change, once the queue is unlocked.
type news struct{ ready, hungry, crowded bool }

func (q *Queue[K, V]) news(ready bool) news {
	return news{ready: ready, hungry: q.hungry.front != nil && q.supply < maxSupply}
}

func (q *Queue[K, V]) notify(n news) {
	if n.ready && q.opts.Ready != nil {
		q.opts.Ready()
	}
	if n.hungry && q.opts.Hungry != nil {
		q.opts.Hungry()
	}
	if n.crowded && q.opts.Crowded != nil {
		q.opts.Crowded()
	}
}
