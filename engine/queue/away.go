package queue

import "time"

// away is what of a key is in the store alone, between what waits in memory in front of it and what waits behind it.
type away[V any] struct {
	count int
	bytes int64
	after uint64    // all of their numbers are above it,
	last  uint64    // and none above this
	since time.Time // none of them was added before; of what was restored, when it was
	// behind is the first of what waits in memory behind them. nil if there is nothing.
	behind *element[*value[V]]
}

// Restore says that count values of key, with numbers from first to last and of so many bytes, are in the store alone.
// It is called before the queue is used otherwise, once for a key.
func (q *Queue[K, V]) Restore(key K, count int, first, last uint64, bytes int64) {
	if count <= 0 || q.opts.Store == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.entry(key).away = &away[V]{count: count, bytes: bytes, after: first - 1, last: last, since: time.Now()}
	q.away += count
	q.awayBytes += bytes
	q.number = max(q.number, last)
}
