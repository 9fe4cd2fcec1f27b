package queue

import (
	"time"

	"github.com/informd/informd/internal/list"
)

// away describes the values of one key that only the store holds. In the key's order they come
// between two parts that wait in memory: one before them, one behind. away also accounts for the
// values that were loaded from the store.
//
// The queue expects to read such values back exactly as it first put them: the store may not have
// written later changes or deletions yet. So a value goes away only if its record never changed,
// and no record between two of them was deleted. Queue.mu guards all fields.
type away[V any] struct {
	count  int
	bytes  int64
	after  uint64    // all of their numbers are above after
	last   uint64    // and none is above last
	rest   time.Time // none of them was added earlier; for restored values, when they were restored
	misses int       // loads in a row that found nothing

	redriven []uint64 // numbers in their range of values redriven since
	restored uint64   // up to here, values may have been handed out before a kill
	sealed   bool     // a record behind them has changed or gone, so no more values can go away

	behind *list.Element[*value[V]] // the first value that waits in memory behind them, or nil

	here   int   // loaded values that wait or are in flight
	loaded int64 // bytes of the loaded values that wait

	oldest time.Time // no value that is away or was loaded was added earlier
	index  int       // place in ages.past
}

// open reports whether any value is away. a may be nil.
func (a *away[V]) open() bool { return a != nil && a.count > 0 }

// Restore tells the queue that only the store holds count values of key. Their numbers lie between
// first and last, and they take the given bytes in all. The caller restores each key once, before
// any other use of the queue. Without a Store, Restore does nothing.
func (q *Queue[K, V]) Restore(key K, count int, first, last uint64, bytes int64) {
	q.notify(q.restore(key, count, first, last, bytes))
}

func (q *Queue[K, V]) restore(key K, count int, first, last uint64, bytes int64) news[K, V] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.opts.Store == nil || count <= 0 || first == 0 || first > last {
		return news[K, V]{}
	}
	e := q.keys.entry(key)
	a := q.leaving(e, q.opts.Now())
	a.after, a.last, a.restored = first-1, last, last
	q.count(a, count, bytes)
	q.numbers.reserve(last)
	return q.news(q.requeue(e))
}

// leaving returns e's account of the values that are away, and makes it if necessary. since is when
// the first value that goes away was added.
func (q *Queue[K, V]) leaving(e *entry[K, V], since time.Time) *away[V] {
	if e.away == nil {
		e.away = &away[V]{oldest: since}
		q.ages.past.Push(e)
	}
	if !e.away.open() {
		e.away.rest, e.away.sealed, e.away.misses, e.away.redriven = since, false, 0, nil
	}
	return e.away
}

// count adjusts the totals for values that go away or come back.
func (q *Queue[K, V]) count(a *away[V], count int, bytes int64) {
	a.count += count
	a.bytes += bytes
	q.totals.away += count
	q.totals.awayBytes += bytes
}

// leaveToStore appends v to e's values in the store alone, and reports whether the store had room.
// Values in memory behind those that are away go away as well.
func (q *Queue[K, V]) leaveToStore(e *entry[K, V], v V, size int64, since time.Time) bool {
	if q.opts.Store == nil || e.away.open() && e.away.sealed || !q.opts.Store.Room(size) {
		return false
	}
	since = q.since(since)
	a := q.leaving(e, since)
	for a.behind != nil {
		val := a.behind.Value
		q.leave(e, val)
		q.count(a, 1, val.size)
		q.retire(e, val)
	}
	n := q.numbers.next()
	if !a.open() {
		a.after = n - 1
	}
	a.last = n
	q.count(a, 1, size)
	q.opts.Store.Put(n, e.key, Record[V]{Value: v, Since: since, Sent: q.doubt})
	return true
}

// unload sends e's loaded values back to the store while e waits for a retry. Otherwise the values
// held up by failing keys would fill the memory.
func (q *Queue[K, V]) unload(e *entry[K, V]) {
	if e.away == nil || !q.opts.Every {
		return
	}
	a, at := e.away, e.beforeAway()
	if a.open() && (at == nil || at.Value.n != a.after) {
		return
	}
	for at != nil && at.Value.loaded && !at.Value.redriven && !at.Value.rewritten {
		val := at.Value
		at = at.Prev()
		q.leave(e, val)
		if !a.open() {
			a.last, a.misses = val.n, 0
		}
		a.after, a.rest = val.n-1, val.since
		q.count(a, 1, val.size)
		q.retire(e, val)
	}
}

// close ends what is away of e: the values behind come next. Values that the store did not return
// count as dropped.
func (q *Queue[K, V]) close(e *entry[K, V]) {
	a := e.away
	q.totals.dropped += uint64(a.count)
	q.count(a, -a.count, -a.bytes)
	last := e.beforeAway()
	a.behind = nil
	if last != nil {
		q.mergeBehind(e, last.Value, !q.opts.Every)
	}
	q.dropAway(e)
}

// dropAway removes e's account of the values that are away, if e has one and no longer needs it.
func (q *Queue[K, V]) dropAway(e *entry[K, V]) {
	if e.away == nil || e.away.open() || e.away.here > 0 {
		return
	}
	q.ages.past.Remove(e)
	e.away = nil
}
