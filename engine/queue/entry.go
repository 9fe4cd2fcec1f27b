package queue

import (
	"time"

	"github.com/informd/informd/internal/list"
)

// entry is a key with its values. The queue keeps it while the key has values. It is then in one of
// five states: ready, delayed, in flight, hungry or being loaded.
type entry[K comparable, V any] struct {
	key      K
	waiting  list.List[*value[V]] // in memory: those before what is away, then those behind
	away     *away[V]             // nil if none is away, and none here was loaded
	inFlight *value[V]

	length            int32 // number of elements in waiting
	isReady, isHungry bool
	place             list.Element[*entry[K, V]] // in the ready or the hungry list

	delayed int // place in delays.keys, or notDelayed
	due     time.Time
	turn    uint64
	yield   *yield // of the delay, or of the one before a flight; nil if it does not yield
}

type value[V any] struct {
	v         V
	n         uint64 // number of its record
	size      int64
	since     time.Time
	sent      bool   // it was handed out before
	redriven  bool   // it is never merged, see Redrive
	loaded    bool   // it was read from the store, and is not in ages.stayed
	rewritten bool   // its record has changed since it was first put
	cut       uint64 // what Store.Put returned last
	place     list.Element[*value[V]]
	age       list.Element[*value[V]]
}

// newValue returns a value that was first added at since; zero means now.
func (q *Queue[K, V]) newValue(v V, n uint64, size int64, since time.Time) *value[V] {
	val := &value[V]{v: v, n: n, size: size, since: q.since(since)}
	val.place.Value, val.age.Value = val, val
	q.ages.enlist(val)
	return val
}

// since returns a time, or now if it is zero or yet to come.
func (q *Queue[K, V]) since(since time.Time) time.Time {
	if now := q.opts.Now(); since.IsZero() || since.After(now) {
		return now
	}
	return since
}

// wait makes val wait in front of before, or last if before is nil.
func (q *Queue[K, V]) wait(e *entry[K, V], val *value[V], before *list.Element[*value[V]]) {
	e.waiting.InsertBefore(&val.place, before)
	e.length++
	q.totals.add(1, val.size)
	q.rota.stock(e, val, val.size+overhead)
}

// leave removes val from the values that wait.
func (q *Queue[K, V]) leave(e *entry[K, V], val *value[V]) {
	if e.away != nil && e.away.behind == &val.place {
		e.away.behind = val.place.Next()
	}
	e.waiting.Remove(&val.place)
	e.length--
	q.totals.add(-1, -val.size)
	q.rota.stock(e, val, -val.size-overhead)
}

// land ends the flight of e's value and returns it.
func (q *Queue[K, V]) land(e *entry[K, V]) *value[V] {
	val := e.inFlight
	e.inFlight = nil
	q.totals.inFlight--
	return val
}

// record writes the record of val, which waits or is in flight.
func (q *Queue[K, V]) record(e *entry[K, V], val *value[V]) {
	if q.opts.Store == nil {
		return
	}
	r := Record[V]{Value: val.v, Since: val.since, Sent: val.sent, Redriven: val.redriven}
	if e.delayed != notDelayed && e.waiting.Front() == &val.place {
		r.Due, r.Yields = e.due, e.yields()
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
	q.ages.stayed.Remove(&val.age)
}

// front returns the first waiting value that may be handed out, or nil.
func (e *entry[K, V]) front() *list.Element[*value[V]] {
	if e.away.open() && e.waiting.Front() == e.away.behind {
		return nil
	}
	return e.waiting.Front()
}

// back returns the waiting value that a new one would come right behind, or nil.
func (e *entry[K, V]) back() *list.Element[*value[V]] {
	if e.away.open() && e.away.behind == nil {
		return nil
	}
	return e.waiting.Back()
}

// beforeAway returns the last waiting value in front of those that are away, or nil. Some must be
// away.
func (e *entry[K, V]) beforeAway() *list.Element[*value[V]] {
	if e.away.behind != nil {
		return e.away.behind.Prev()
	}
	return e.waiting.Back()
}

// afterRedriven returns the first waiting value that is not redriven, or nil.
func (e *entry[K, V]) afterRedriven() *list.Element[*value[V]] {
	at := e.waiting.Front()
	for at != nil && at.Value.redriven {
		at = at.Next()
	}
	return at
}

// requeue moves e to the list where it belongs after a change, and reports whether it became ready.
func (q *Queue[K, V]) requeue(e *entry[K, V]) (becameReady bool) {
	if e.inFlight != nil {
		return false
	}
	if e.front() == nil {
		if !e.away.open() {
			q.forget(e)
			return false
		}
		q.rota.unready(e)
		if e.delayed == notDelayed {
			q.rota.starve(e)
		}
		return false
	}
	q.rota.sate(e)
	return e.delayed == notDelayed && q.rota.admit(e)
}

// forget drops e, which has no values left.
func (q *Queue[K, V]) forget(e *entry[K, V]) {
	q.rota.unready(e)
	q.rota.sate(e)
	q.delays.remove(e, q.opts)
	q.keys.forget(e.key)
}
