package queue

import (
	"container/heap"
	"time"
)

// away is what of a key is in the store alone, between what waits in memory in front of it and what waits behind it, and
// the account of what was loaded of that.
//
// What is away is read back as it was first put: the store may not have written yet that a record has changed or gone. So
// only records that never changed go away, and none was deleted between them.
type away[V any] struct {
	count  int
	bytes  int64
	after  uint64    // all of their numbers are above it,
	last   uint64    // and none above this
	rest   time.Time // none of them was added before; of what was restored, when it was
	misses int       // how often in a row nothing could be loaded

	redriven []uint64 // numbers between those that are away of what was redriven since; as many as were asked for
	restored uint64   // what is up to here may have been handed out before the program was killed
	sealed   bool     // a record behind them has changed or gone, so that nothing more can go away

	behind *element[*value[V]] // the first of what waits in memory behind them, or nil

	here   int   // how many that were loaded wait or are in flight
	loaded int64 // bytes of those that wait

	oldest time.Time // none, of what is away or was loaded, was added before
	index  int       // in Queue.past
}

// open tells whether anything is away. a may be nil.
func (a *away[V]) open() bool { return a != nil && a.count > 0 }

// Restore says that count values of key, with numbers from first to last and of so many bytes, are in the store alone.
// It is called once for a key, before the queue is used otherwise, and does nothing without a Store.
func (q *Queue[K, V]) Restore(key K, count int, first, last uint64, bytes int64) {
	q.notify(q.restore(key, count, first, last, bytes))
}

func (q *Queue[K, V]) restore(key K, count int, first, last uint64, bytes int64) news {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.opts.Store == nil || count <= 0 || first == 0 || first > last {
		return news{}
	}
	e := q.entry(key)
	a := q.leaving(e, q.opts.Now())
	a.after, a.last, a.restored = first-1, last, last
	q.count(a, count, bytes)
	q.number = max(q.number, last)
	return q.news(q.settle(e))
}

// leaving finds or makes the account of what is away of e. since is when the first of what goes away was added.
func (q *Queue[K, V]) leaving(e *entry[K, V], since time.Time) *away[V] {
	if e.away == nil {
		e.away = &away[V]{oldest: since}
		heap.Push(&q.past, e)
	}
	if !e.away.open() {
		e.away.rest, e.away.sealed, e.away.misses, e.away.redriven = since, false, 0, nil
	}
	return e.away
}

// count accounts for more, or fewer, that are away.
func (q *Queue[K, V]) count(a *away[V], count int, bytes int64) {
	a.count += count
	a.bytes += bytes
	q.awayItems += count
	q.awayBytes += bytes
}

// leaveToStore adds v behind all of e's values, in the store alone, if there is room. What waits in memory behind what is
// away goes as well.
func (q *Queue[K, V]) leaveToStore(e *entry[K, V], v V, size int64) bool {
	if q.opts.Store == nil || e.away.open() && e.away.sealed || !q.opts.Store.Room(size) {
		return false
	}
	now := q.opts.Now()
	a := q.leaving(e, now)
	for a.behind != nil {
		val := a.behind.item
		q.leave(e, val)
		q.count(a, 1, val.size)
		q.retire(e, val)
	}
	n := q.nextNumber()
	if !a.open() {
		a.after = n - 1
	}
	a.last = n
	q.count(a, 1, size)
	q.opts.Store.Put(n, e.key, Record[V]{Value: v, Since: now, Sent: q.doubt})
	return true
}

// unload has what was loaded of e go away again, while e waits for a retry: what keys that fail hold up would otherwise fill
// the memory.
func (q *Queue[K, V]) unload(e *entry[K, V]) {
	if e.away == nil || !q.opts.Every {
		return
	}
	a, at := e.away, e.beforeAway()
	if a.open() && (at == nil || at.item.n != a.after) {
		return
	}
	for at != nil && at.item.loaded && !at.item.redriven && !at.item.rewritten {
		val := at.item
		at = at.prev
		q.leave(e, val)
		if !a.open() {
			a.last, a.misses = val.n, 0
		}
		a.after, a.rest = val.n-1, val.since
		q.count(a, 1, val.size)
		q.retire(e, val)
	}
}

// close ends what is away of e: what waits behind comes next. Those that were not found are counted as dropped.
func (q *Queue[K, V]) close(e *entry[K, V]) {
	a := e.away
	q.dropped += uint64(a.count)
	q.count(a, -a.count, -a.bytes)
	last := e.beforeAway()
	a.behind = nil
	if last != nil {
		q.mergeBehind(e, last.item, !q.opts.Every)
	}
	q.dropAway(e)
}

// dropAway drops the account of what is away of e, if there is one and it is over.
func (q *Queue[K, V]) dropAway(e *entry[K, V]) {
	if e.away == nil || e.away.open() || e.away.here > 0 {
		return
	}
	heap.Remove(&q.past, e.away.index)
	e.away = nil
}
