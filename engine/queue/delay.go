package queue

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// notDelayed is the index of an entry that is not among the delays.
const notDelayed = -1

// delays is a heap of the keys that wait for a retry, or for another load after one failed. The key
// due first is in front. Keys due at the same time keep the order in which they were delayed.
type delays[K comparable, V any] []*entry[K, V]

func (d delays[K, V]) Len() int { return len(d) }

func (d delays[K, V]) Less(i, j int) bool {
	if d[i].due.Equal(d[j].due) {
		return d[i].turn < d[j].turn
	}
	return d[i].due.Before(d[j].due)
}

func (d delays[K, V]) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].delayed, d[j].delayed = i, j
}

func (d *delays[K, V]) Push(x any) {
	e := x.(*entry[K, V])
	e.delayed = len(*d)
	*d = append(*d, e)
}

func (d *delays[K, V]) Pop() any {
	last := len(*d) - 1
	e := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	e.delayed = notDelayed
	if cap(*d) > minShrink && len(*d) < cap(*d)/4 {
		*d = append(make(delays[K, V], 0, 2*len(*d)), *d...)
	}
	return e
}

// delay keeps e from becoming ready for the given time. e must be neither in flight nor delayed.
func (q *Queue[K, V]) delay(e *entry[K, V], after time.Duration) {
	q.turn++
	e.due, e.turn = q.opts.Now().Add(after), q.turn
	heap.Push(&q.delays, e)
	q.arm()
}

// arm sets the timer to the time when the first delayed key is due.
func (q *Queue[K, V]) arm() {
	switch {
	case len(q.delays) == 0:
		if q.timer != nil {
			q.timer.Stop()
		}
		q.armed = time.Time{}
	case q.timer == nil:
		q.armed = q.delays[0].due
		q.timer = q.opts.AfterFunc(q.until(q.armed), q.expire)
	case !q.armed.Equal(q.delays[0].due):
		q.armed = q.delays[0].due
		q.timer.Reset(q.until(q.armed))
	}
}

// until returns the time that is left until t.
func (q *Queue[K, V]) until(t time.Time) time.Duration { return t.Sub(q.opts.Now()) }

// expire runs when the timer fires. If the timer was stopped or reset too late, expire finds
// nothing due and does no harm.
func (q *Queue[K, V]) expire() { q.notify(q.release()) }

// Hasten ends the delays of the keys that chosen accepts, in the order in which they were due, and
// returns how many. It keeps the values' records, so after a restart the rest of a delay may be
// left. chosen is called with the queue locked.
func (q *Queue[K, V]) Hasten(chosen func(K) bool) (n int) {
	n, news := q.hasten(chosen)
	q.notify(news)
	return n
}

func (q *Queue[K, V]) hasten(chosen func(K) bool) (n int, _ news[K, V]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var due, rest delays[K, V]
	for _, e := range q.delays {
		if chosen(e.key) {
			due = append(due, e)
		} else {
			rest = append(rest, e)
		}
	}
	q.delays = rest
	for i, e := range rest {
		e.delayed = i
	}
	heap.Init(&q.delays)
	slices.SortFunc(due, func(a, b *entry[K, V]) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.turn, b.turn))
	})
	ready := false
	for _, e := range due {
		e.delayed = notDelayed
		ready = q.settle(e) || ready
	}
	q.arm()
	return len(due), q.news(ready)
}

// Delayed returns the keys that wait for a retry, or for another load after one failed.
func (q *Queue[K, V]) Delayed() []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := make([]K, len(q.delays))
	for i, e := range q.delays {
		keys[i] = e.key
	}
	return keys
}

// release ends the delays that are over.
func (q *Queue[K, V]) release() news[K, V] {
	q.mu.Lock()
	defer q.mu.Unlock()
	ready := false
	for now := q.opts.Now(); len(q.delays) > 0 && !q.delays[0].due.After(now); {
		ready = q.settle(heap.Pop(&q.delays).(*entry[K, V])) || ready
	}
	q.armed = time.Time{}
	q.arm()
	return q.news(ready)
}
