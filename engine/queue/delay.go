package queue

import (
	"time"

	"github.com/informd/informd/internal/heap"
)

// notDelayed is the place of an entry that is not among the delays.
const notDelayed = heap.Out

// delays has the keys that wait for a retry, or for another load after one failed, and the timer
// for the one that is due first. Keys due at the same time keep the order in which they were
// delayed. Queue.mu guards it.
type delays[K comparable, V any] struct {
	keys   heap.Heap[*entry[K, V], byDue[K, V]]
	turn   uint64    // counts delays, to order those due at the same time
	timer  Timer     // made at the first delay
	armed  time.Time // when the timer fires; zero if it is not set
	expire func()    // called when it fires
}

// byDue orders the keys of delays.
type byDue[K comparable, V any] struct{}

func (byDue[K, V]) Less(a, b *entry[K, V]) bool {
	if a.due.Equal(b.due) {
		return a.turn < b.turn
	}
	return a.due.Before(b.due)
}

func (byDue[K, V]) Place(of *entry[K, V]) *int { return &of.delayed }

// add keeps e from becoming ready until it is due. e must be neither in flight nor delayed.
func (d *delays[K, V]) add(e *entry[K, V], due time.Time, o *Options[K, V]) {
	d.turn++
	e.due, e.turn = due, d.turn
	d.keys.Push(e)
	d.arm(o)
}

// remove ends the delay of e early, if it is delayed.
func (d *delays[K, V]) remove(e *entry[K, V], o *Options[K, V]) {
	if e.delayed != notDelayed {
		d.keys.Remove(e)
		d.arm(o)
	}
}

// next ends the first delay and returns its key, or nil if none is over.
func (d *delays[K, V]) next(now time.Time) *entry[K, V] {
	if d.keys.Len() == 0 || d.keys.First().due.After(now) {
		return nil
	}
	return d.keys.Pop()
}

// arm sets the timer to the time when the first delayed key is due.
func (d *delays[K, V]) arm(o *Options[K, V]) {
	if d.keys.Len() == 0 {
		d.stop()
		d.armed = time.Time{}
		return
	}
	due := d.keys.First().due
	if d.timer != nil && d.armed.Equal(due) {
		return
	}
	d.armed = due
	if wait := due.Sub(o.Now()); d.timer == nil {
		d.timer = o.AfterFunc(wait, d.expire)
	} else {
		d.timer.Reset(wait)
	}
}

// stop stops the timer, if there is one.
func (d *delays[K, V]) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// clear forgets all delays.
func (d *delays[K, V]) clear() {
	d.stop()
	d.keys = heap.Heap[*entry[K, V], byDue[K, V]]{}
}

// delay keeps e from becoming ready for the given time. e must be neither in flight nor delayed.
func (q *Queue[K, V]) delay(e *entry[K, V], after time.Duration) {
	q.delays.add(e, q.opts.Now().Add(after), q.opts)
}

// yield belongs to a delay that a newer value cuts short: see Queue.Yield.
type yield struct {
	from  time.Time // the delay may end then
	until time.Time // the delay would have ended then; zero if nothing has cut it short
}

// yields reports whether e is delayed and a newer value may cut that short.
func (e *entry[K, V]) yields() bool {
	return e.delayed != notDelayed && e.yield != nil && e.yield.until.IsZero()
}

// cutShort ends the delay of e early, if it yields: a newer value was merged into the value that
// waits for its end.
func (d *delays[K, V]) cutShort(e *entry[K, V], o *Options[K, V]) {
	if !e.yields() || !e.yield.from.Before(e.due) {
		return
	}
	y := e.yield
	y.until = e.due
	d.remove(e, o)
	if y.from.After(o.Now()) {
		d.add(e, y.from, o)
	}
}

// endYield notes that e is taken, so its delay is over. It returns when the delay would have ended
// if a newer value has cut it short.
func (e *entry[K, V]) endYield() (until time.Time) {
	if e.yield == nil {
		return time.Time{}
	}
	if until = e.yield.until; until.IsZero() {
		e.yield = nil
	}
	return until
}

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
	due := q.delays.keys.Extract(func(e *entry[K, V]) bool { return chosen(e.key) })
	ready := false
	for _, e := range due {
		e.yield = nil
		ready = q.requeue(e) || ready
	}
	q.delays.arm(q.opts)
	return len(due), q.news(ready)
}

// Delayed returns the keys that wait for a retry, or for another load after one failed.
func (q *Queue[K, V]) Delayed() []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := make([]K, q.delays.keys.Len())
	for i, e := range q.delays.keys.All() {
		keys[i] = e.key
	}
	return keys
}

// release ends the delays that are over.
func (q *Queue[K, V]) release() news[K, V] {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, ready := q.opts.Now(), false
	for e := q.delays.next(now); e != nil; e = q.delays.next(now) {
		ready = q.requeue(e) || ready
	}
	q.delays.armed = time.Time{}
	q.delays.arm(q.opts)
	return q.news(ready)
}
