package queue

import (
	"container/heap"
	"maps"
	"time"
)

// entry is a key with its values. It is kept while it has any, and then is one of three: ready, delayed or in flight.
type entry[K comparable, V any] struct {
	key      K
	waiting  list[*value[V]]
	length   int      // of waiting
	away     *away[V] // nil if nothing is
	inFlight *value[V]

	isReady bool
	ready   element[*entry[K, V]] // place among the ready, if isReady

	delayed int // index among the delays, or notDelayed
	due     time.Time
	turn    uint64
}

type value[V any] struct {
	v        V
	size     int64
	since    time.Time
	sent     bool // handed out before
	redriven bool // goes as it is, see Redrive
	place    element[*value[V]]
	age      element[*value[V]]
}

// entry finds or makes the entry of key. Who makes one gives it a value.
func (q *Queue[K, V]) entry(key K) *entry[K, V] {
	e := q.keys[key]
	if e == nil {
		e = &entry[K, V]{key: key, delayed: notDelayed}
		e.ready.item = e
		q.keys[key] = e
		q.peak = max(q.peak, len(q.keys))
	}
	return e
}

func (q *Queue[K, V]) newValue(v V, size int64) *value[V] {
	val := &value[V]{v: v, size: size, since: time.Now()}
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
}

// leave takes val out of what waits.
func (q *Queue[K, V]) leave(e *entry[K, V], val *value[V]) {
	e.waiting.remove(&val.place)
	e.length--
	q.waiting--
	q.bytes -= val.size
}

// land ends the flight of e's value and returns it.
func (q *Queue[K, V]) land(e *entry[K, V]) *value[V] {
	val := e.inFlight
	e.inFlight = nil
	q.inFlight--
	return val
}

// afterRedriven is the first of what waits that is not redriven.
func (e *entry[K, V]) afterRedriven() *element[*value[V]] {
	at := e.waiting.front
	for at != nil && at.item.redriven {
		at = at.next
	}
	return at
}

// merge merges newer into val, which waits, and tells whether that was possible. If the two cancelled each other out, val
// is gone.
func (q *Queue[K, V]) merge(e *entry[K, V], val *value[V], newer V) bool {
	if val.redriven {
		return false
	}
	merged, keep, ok := q.opts.Merge(val.v, newer, val.sent)
	if !ok {
		return false
	}
	if !keep {
		q.leave(e, val)
		q.age.remove(&val.age)
		return true
	}
	q.bytes -= val.size
	val.v, val.size = merged, q.opts.Size(merged)
	q.bytes += val.size
	return true
}

// mergeBehind merges into val what waits behind it, as far as that can be merged.
func (q *Queue[K, V]) mergeBehind(e *entry[K, V], val *value[V]) {
	for next := val.place.next; next != nil && !q.opts.Every; next = val.place.next {
		newer := next.item
		if !q.merge(e, val, newer.v) {
			return
		}
		q.leave(e, newer)
		q.age.remove(&newer.age)
	}
}

// dropOldest drops the oldest of what waits for e. What is redriven stays: it was asked for, and is bounded by who asks.
func (q *Queue[K, V]) dropOldest(e *entry[K, V]) {
	oldest := e.afterRedriven()
	if oldest == nil {
		return
	}
	q.leave(e, oldest.item)
	q.age.remove(&oldest.item.age)
	q.dropped++
}

// settle brings e to where it belongs after a change, and tells whether it became ready.
func (q *Queue[K, V]) settle(e *entry[K, V]) (becameReady bool) {
	switch {
	case e.inFlight != nil:
		return false
	case e.waiting.front == nil:
		q.forget(e)
		return false
	case e.isReady || e.delayed != notDelayed:
		return false
	}
	e.isReady = true
	q.ready.pushBack(&e.ready)
	return true
}

// forget drops e, which has no values.
func (q *Queue[K, V]) forget(e *entry[K, V]) {
	if e.isReady {
		q.ready.remove(&e.ready)
	}
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
