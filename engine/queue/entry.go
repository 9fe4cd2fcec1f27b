package queue

import (
	"container/heap"
	"maps"
	"time"
)

// entry is a key with its values. It is kept while it has any, and then is one of five: ready, delayed, in flight, hungry
// or being loaded.
type entry[K comparable, V any] struct {
	key      K
	waiting  list[*value[V]] // in memory: first what goes before what is away, then what goes behind that
	length   int             // of waiting
	away     *away[V]        // nil if nothing is in the store alone, and nothing here was loaded from it
	inFlight *value[V]

	isReady, isHungry bool
	place             element[*entry[K, V]] // among the ready or the hungry

	delayed int // index among the delays, or notDelayed
	due     time.Time
	turn    uint64
}

type value[V any] struct {
	v         V
	n         uint64 // that its record has
	size      int64
	since     time.Time
	sent      bool // handed out before
	redriven  bool // goes as it is, see Redrive
	loaded    bool // read from the store: it has no place in age
	rewritten bool // its record has changed since it was first put
	place     element[*value[V]]
	age       element[*value[V]]
}

// entry finds or makes the entry of key. Who makes one gives it a value.
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

func (q *Queue[K, V]) newValue(v V, n uint64, size int64) *value[V] {
	val := &value[V]{v: v, n: n, size: size, since: q.opts.Now()}
	val.place.item, val.age.item = val, val
	q.age.pushBack(&val.age)
	return val
}

// wait puts val before another place among what waits, or last.
func (q *Queue[K, V]) wait(e *entry[K, V], val *value[V], before *element[*value[V]]) {
	e.waiting.insertBefore(&val.place, before)
	e.length++
	q.waiting++
	q.bytes += val.size
	q.stock(e, val, val.size+overhead)
}

// leave takes val out of what waits.
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

// stock accounts for more, or fewer, bytes that val takes, if that was loaded.
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

// nextNumber is the number of a value that goes behind all others of its key.
func (q *Queue[K, V]) nextNumber() uint64 {
	q.number++
	return q.number
}

// nextRedriven is the number of a value that goes before all that are not redriven, also after a restart. It is made of the
// time: what is left of the redriven is not told by Restore, and has lower ones.
func (q *Queue[K, V]) nextRedriven() uint64 {
	now := min(max(q.opts.Now().UnixNano(), 0), firstNumber-1) // which it reaches in 2116
	q.redriven = max(q.redriven+1, uint64(now))
	return q.redriven
}

// record records val, which waits.
func (q *Queue[K, V]) record(e *entry[K, V], val *value[V]) {
	if q.opts.Store == nil {
		return
	}
	r := Record[V]{Value: val.v, Since: val.since, Sent: val.sent, Redriven: val.redriven}
	if e.delayed != notDelayed && e.waiting.front == &val.place {
		r.Due = e.due
	}
	q.opts.Store.Put(val.n, e.key, r)
}

// end forgets val, which neither waits any more nor is in flight, and its record.
func (q *Queue[K, V]) end(e *entry[K, V], val *value[V]) {
	q.retire(e, val)
	if q.opts.Store != nil {
		q.opts.Store.Delete(val.n, e.key)
	}
}

// retire forgets val, which neither waits any more nor is in flight.
func (q *Queue[K, V]) retire(e *entry[K, V], val *value[V]) {
	if val.loaded {
		e.away.here--
		q.dropAway(e)
		return
	}
	q.age.remove(&val.age)
}

// front is the first of what waits that may be handed out, or nil.
func (e *entry[K, V]) front() *element[*value[V]] {
	if e.away.open() && e.waiting.front == e.away.behind {
		return nil
	}
	return e.waiting.front
}

// back is the last of what waits that a newer value comes right behind, or nil.
func (e *entry[K, V]) back() *element[*value[V]] {
	if e.away.open() && e.away.behind == nil {
		return nil
	}
	return e.waiting.back
}

// beforeAway is the last of what waits in front of what is away, which there is, or nil.
func (e *entry[K, V]) beforeAway() *element[*value[V]] {
	if e.away.behind != nil {
		return e.away.behind.prev
	}
	return e.waiting.back
}

// afterRedriven is the first of what waits that is not redriven.
func (e *entry[K, V]) afterRedriven() *element[*value[V]] {
	at := e.waiting.front
	for at != nil && at.item.redriven {
		at = at.next
	}
	return at
}

// settle brings e to where it belongs after a change, and tells whether it became ready.
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

// unready takes e from among the ready, if it is there.
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

// sate takes e from among the hungry, if it is there.
func (q *Queue[K, V]) sate(e *entry[K, V]) {
	if e.isHungry {
		e.isHungry = false
		q.hungry.remove(&e.place)
	}
}

// forget drops e, which has no values.
func (q *Queue[K, V]) forget(e *entry[K, V]) {
	q.unready(e)
	q.sate(e)
	if e.delayed != notDelayed {
		heap.Remove(&q.delays, e.delayed)
		q.arm()
	}
	delete(q.keys, e.key)
	if q.peak > minShrink && len(q.keys) < q.peak/4 { // a map keeps the room of all that it ever held
		smaller := make(map[K]*entry[K, V], len(q.keys))
		maps.Copy(smaller, q.keys)
		q.keys, q.peak = smaller, len(smaller)
	}
}
