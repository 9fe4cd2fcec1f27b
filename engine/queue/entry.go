package queue

import (
	"container/heap"
	"maps"
	"time"
)

// entry is a key with its values. The queue keeps it while the key has values. It is then in one of
// five states: ready, delayed, in flight, hungry or being loaded.
type entry[K comparable, V any] struct {
	key      K
	waiting  list[*value[V]] // in memory: those before what is away, then those behind
	length   int             // number of elements in waiting
	away     *away[V]        // nil if none is away, and none here was loaded
	inFlight *value[V]

	isReady, isHungry bool
	place             element[*entry[K, V]] // in the ready or the hungry list

	delayed int // index in Queue.delays, or notDelayed
	due     time.Time
	turn    uint64
}

type value[V any] struct {
	v         V
	n         uint64 // number of its record
	size      int64
	since     time.Time
	sent      bool   // it was handed out before
	redriven  bool   // it is never merged, see Redrive
	loaded    bool   // it was read from the store, and is not in Queue.age
	rewritten bool   // its record has changed since it was first put
	cut       uint64 // what Store.Put returned last
	place     element[*value[V]]
	age       element[*value[V]]
}

// entry returns the entry of key, and makes it if there is none. The caller must then give a new
// entry a value.
func (q *Queue[K, V]) entry(key K) *entry[K, V] {
	e := q.keys[key]
	if e == nil {
		e = &entry[K, V]{key: key, delayed: notDelayed}
		e.place.item = e
		q.keys[key] = e
		q.peak = max(q.peak, len(q.keys))
	}
	return e
}

// newValue returns a value that was first added at since; zero means now.
func (q *Queue[K, V]) newValue(v V, n uint64, size int64, since time.Time) *value[V] {
	val := &value[V]{v: v, n: n, size: size, since: q.since(since)}
	val.place.item, val.age.item = val, val
	q.enlist(val)
	return val
}

// since returns a time, or now if it is zero or yet to come.
func (q *Queue[K, V]) since(since time.Time) time.Time {
	if now := q.opts.Now(); since.IsZero() || since.After(now) {
		return now
	}
	return since
}

// enlist puts val into age in the order of time. Its place is near an end: nearly all values are the
// newest, and those that come back are old. So enlist searches from both ends.
func (q *Queue[K, V]) enlist(val *value[V]) {
	oldest, newest := q.age.front, q.age.back
	for newest != nil {
		switch {
		case !newest.item.since.After(val.since):
			q.age.insertBefore(&val.age, newest.next)
			return
		case oldest.item.since.After(val.since):
			q.age.insertBefore(&val.age, oldest)
			return
		}
		oldest, newest = oldest.next, newest.prev
	}
	q.age.pushBack(&val.age)
}

// wait makes val wait in front of before, or last if before is nil.
func (q *Queue[K, V]) wait(e *entry[K, V], val *value[V], before *element[*value[V]]) {
	e.waiting.insertBefore(&val.place, before)
	e.length++
	q.waiting++
	q.bytes += val.size
	q.stock(e, val, val.size+overhead)
}

// leave removes val from the values that wait.
func (q *Queue[K, V]) leave(e *entry[K, V], val *value[V]) {
	if e.away != nil && e.away.behind == &val.place {
		e.away.behind = val.place.next
	}
	e.waiting.remove(&val.place)
	e.length--
	q.waiting--
	q.bytes -= val.size
	q.stock(e, val, -val.size-overhead)
}

// stock adjusts the byte counts of loaded values, if val was loaded.
func (q *Queue[K, V]) stock(e *entry[K, V], val *value[V], by int64) {
	if !val.loaded {
		return
	}
	e.away.loaded += by
	if e.isReady {
		q.supply += by
	}
}

// land ends the flight of e's value and returns it.
func (q *Queue[K, V]) land(e *entry[K, V]) *value[V] {
	val := e.inFlight
	e.inFlight = nil
	q.inFlight--
	return val
}

// nextNumber returns a number for a value that goes behind all others of its key.
func (q *Queue[K, V]) nextNumber() uint64 {
	q.number++
	return q.number
}

// nextRedriven returns a number for a value that goes ahead of all that are not redriven, also
// after a restart. The number derives from the time. Restore does not tell the queue about redriven
// values that are left, so new numbers must exceed theirs.
func (q *Queue[K, V]) nextRedriven() uint64 {
	now := min(max(q.opts.Now().UnixNano(), 0), firstNumber-1) // reached in 2116
	q.redriven = max(q.redriven+1, uint64(now))
	return q.redriven
}

// record writes the record of val, which waits or is in flight.
func (q *Queue[K, V]) record(e *entry[K, V], val *value[V]) {
	if q.opts.Store == nil {
		return
	}
	r := Record[V]{Value: val.v, Since: val.since, Sent: val.sent, Redriven: val.redriven}
	if e.delayed != notDelayed && e.waiting.front == &val.place {
		r.Due = e.due
	}
	val.cut = q.opts.Store.Put(val.n, e.key, r)
}

// end forgets val and deletes its record. val neither waits nor is in flight any more.
func (q *Queue[K, V]) end(e *entry[K, V], val *value[V]) {
	q.retire(e, val)
	if q.opts.Store != nil {
		q.opts.Store.Delete(val.n, e.key)
	}
}

// retire forgets val but keeps its record. val neither waits nor is in flight any more.
func (q *Queue[K, V]) retire(e *entry[K, V], val *value[V]) {
	if val.loaded {
		e.away.here--
		q.dropAway(e)
		return
	}
	q.age.remove(&val.age)
}

// front returns the first waiting value that may be handed out, or nil.
func (e *entry[K, V]) front() *element[*value[V]] {
	if e.away.open() && e.waiting.front == e.away.behind {
		return nil
	}
	return e.waiting.front
}

// back returns the waiting value that a new one would come right behind, or nil.
func (e *entry[K, V]) back() *element[*value[V]] {
	if e.away.open() && e.away.behind == nil {
		return nil
	}
	return e.waiting.back
}

// beforeAway returns the last waiting value in front of those that are away, or nil. Some must be
// away.
func (e *entry[K, V]) beforeAway() *element[*value[V]] {
	if e.away.behind != nil {
		return e.away.behind.prev
	}
	return e.waiting.back
}

// afterRedriven returns the first waiting value that is not redriven, or nil.
func (e *entry[K, V]) afterRedriven() *element[*value[V]] {
	at := e.waiting.front
	for at != nil && at.item.redriven {
		at = at.next
	}
	return at
}

// settle moves e to the list where it belongs after a change, and reports whether it became ready.
func (q *Queue[K, V]) settle(e *entry[K, V]) (becameReady bool) {
	if e.inFlight != nil {
		return false
	}
	if e.front() == nil {
		if !e.away.open() {
			q.forget(e)
			return false
		}
		q.unready(e)
		if !e.isHungry && e.delayed == notDelayed {
			e.isHungry = true
			q.hungry.pushBack(&e.place)
		}
		return false
	}
	q.sate(e)
	if e.isReady || e.delayed != notDelayed {
		return false
	}
	e.isReady = true
	q.ready.pushBack(&e.place)
	if e.away != nil {
		q.supply += e.away.loaded
	}
	return true
}

// unready removes e from the ready list, if it is there.
func (q *Queue[K, V]) unready(e *entry[K, V]) {
	if !e.isReady {
		return
	}
	e.isReady = false
	q.ready.remove(&e.place)
	if e.away != nil {
		q.supply -= e.away.loaded
	}
}

// sate removes e from the hungry list, if it is there.
func (q *Queue[K, V]) sate(e *entry[K, V]) {
	if e.isHungry {
		e.isHungry = false
		q.hungry.remove(&e.place)
	}
}

// forget drops e, which has no values left.
func (q *Queue[K, V]) forget(e *entry[K, V]) {
	q.unready(e)
	q.sate(e)
	if e.delayed != notDelayed {
		heap.Remove(&q.delays, e.delayed)
		q.arm()
	}
	delete(q.keys, e.key)
	if q.peak > minShrink && len(q.keys) < q.peak/4 { // a map never shrinks by itself
		smaller := make(map[K]*entry[K, V], len(q.keys))
		maps.Copy(smaller, q.keys)
		q.keys, q.peak = smaller, len(smaller)
	}
}
