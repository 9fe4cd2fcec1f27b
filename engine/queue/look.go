package queue

import "time"

// Held is what the queue has of a key.
type Held[V any] struct {
	// First is the value in flight, or the one that comes next. HasFirst is false if only the store
	// has it.
	First    V
	HasFirst bool
	N        uint64    // the number of First
	Since    time.Time // when First was added
	InFlight bool
	Due      time.Time // when the delay of the key is over; zero if it has none
	Yields   bool      // the delay ends early if a newer value is merged into First
	Waiting  int       // values that wait, in memory and in the store; not the one in flight
}

// Look returns what the queue has of a key. ok is false if it has nothing.
func (q *Queue[K, V]) Look(key K) (h Held[V], ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys.all[key]
	if e == nil {
		return h, false
	}
	h.Waiting, h.InFlight = int(e.length), e.inFlight != nil
	if e.away != nil {
		h.Waiting += e.away.count
	}
	if e.delayed != notDelayed {
		h.Due, h.Yields = e.due, e.yields()
	}
	first := e.inFlight
	if front := e.front(); first == nil && front != nil {
		first = front.Value
	}
	if first != nil {
		h.First, h.HasFirst, h.N, h.Since = first.v, true, first.n, first.since
	}
	return h, true
}
