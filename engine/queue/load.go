package queue

import (
	"fmt"
	"slices"
	"time"
)

const (
	// maxSupply bounds the bytes of loaded values that wait to be taken. Loading goes on while
	// there are fewer.
	maxSupply = 1 << 20
	// One load returns at most loadItems values and about loadBytes. When the queue's memory is
	// full, it returns one value.
	loadItems = 32
	loadBytes = 256 << 10
	// overhead is the memory that a loaded value takes besides its size.
	overhead = 512

	// After a load that found nothing, the queue tries again after minLoadDelay, which doubles up
	// to maxLoadDelay. If a healthy store lacks a value more than maxMisses times in a row, which
	// takes about two minutes, the value is lost.
	minLoadDelay = 100 * time.Millisecond
	maxLoadDelay = 5 * time.Second
	maxMisses    = 30
)

// request says what to load.
type request[K comparable, V any] struct {
	store    Store[K, V]
	key      K
	after    uint64
	maxItems int
	maxBytes int64
}

// Refill loads values of the key that has waited longest for it. It does nothing while enough
// loaded values wait to be taken. more reports whether there was anything to do. Refill calls begin
// before it changes the queue and end after that.
//
// An error comes from the store, or says that the store lost values. The queue tries that key again
// later, and can load others meanwhile. Refill may be slow: the queue is not locked while the store
// reads.
func (q *Queue[K, V]) Refill(begin, end func()) (more bool, err error) {
	q.refilling.Lock()
	defer q.refilling.Unlock()
	r, ok := q.next()
	if !ok {
		return false, nil
	}
	loaded, err := r.store.Load(r.key, r.after, r.maxItems, r.maxBytes)
	begin()
	defer end()
	n, err := q.feed(r, loaded, err)
	q.notify(n)
	return true, err
}

// next returns what to load next. Its key is not hungry during the load.
func (q *Queue[K, V]) next() (r request[K, V], ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.rota.needsSupply() {
		return r, false
	}
	e := q.rota.hungry.Front().Value
	q.rota.sate(e)
	r = request[K, V]{q.opts.Store, e.key, e.away.after, min(loadItems, e.away.count), loadBytes}
	if q.opts.Every && q.totals.isFull(q.opts.MaxItems, q.opts.MaxBytes, 1) { // not even a byte
		r.maxItems = 1
	}
	return r, true
}

// feed adds the loaded values to the queue.
func (q *Queue[K, V]) feed(r request[K, V], loaded []Numbered[V], err error) (news[K, V], error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys.all[r.key]
	if e == nil || !e.away.open() || e.away.after != r.after {
		return news[K, V]{}, err // the queue was closed meanwhile
	}
	a, found := e.away, 0
	for _, v := range loaded {
		if v.N > a.last {
			a.after = a.last
			break
		}
		a.after = v.N
		if !slices.Contains(a.redriven, v.N) {
			q.insert(e, v)
			found++
		}
	}
	switch {
	case found > 0:
		a.misses = 0
	case a.after == r.after:
		err = q.missed(e, err)
	}
	q.count(a, -min(found, a.count), -a.bytes*int64(min(found, a.count))/int64(a.count))
	if a.after >= a.last || !a.open() {
		if a.count > 0 {
			err = fmt.Errorf("the store has lost %d values of %v", a.count, e.key)
		}
		q.close(e)
	}
	return q.news(q.requeue(e)), err
}

// insert puts v, which was away, behind all values that wait in front of those still away.
func (q *Queue[K, V]) insert(e *entry[K, V], v Numbered[V]) {
	a := e.away
	if v.Since.Before(a.oldest) {
		a.oldest = v.Since
		q.ages.past.Fix(e)
	}
	a.rest = v.Since
	v.Sent = v.Sent || v.N <= a.restored // the store may not know yet that it was taken or done
	last := e.beforeAway()
	if last != nil && !q.opts.Every && !v.Redriven && q.merge(e, last.Value, v.Value) {
		q.opts.Store.Delete(v.N, e.key)
		return
	}
	val := &value[V]{
		v: v.Value, n: v.N, size: q.opts.Size(v.Value), since: v.Since,
		sent: v.Sent, redriven: v.Redriven, loaded: true,
	}
	val.place.Value = val
	first := e.front() == nil
	a.here++
	q.wait(e, val, a.behind)
	after := min(v.Due.Sub(q.opts.Now()), q.opts.MaxDelay)
	if first && after > 0 && e.inFlight == nil && e.delayed == notDelayed {
		q.rota.sate(e)
		q.delay(e, after)
		if v.Yields {
			e.yield = new(yield)
		}
	}
}

// missed notes that a load found nothing for e. After too many such loads it gives the values up as
// lost.
func (q *Queue[K, V]) missed(e *entry[K, V], err error) error {
	a := e.away
	a.misses++
	if err != nil || !q.opts.Store.Room(0) {
		a.misses = min(a.misses, maxMisses/2) // the values may be there once the store is well
	} else if a.misses > maxMisses {
		a.after = a.last
		return nil
	}
	if e.inFlight == nil && e.front() == nil && e.delayed == notDelayed {
		q.rota.sate(e)
		q.delay(e, min(minLoadDelay<<min(a.misses-1, 10), maxLoadDelay))
	}
	return err
}
