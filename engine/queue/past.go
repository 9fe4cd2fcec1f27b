package queue

import (
	"container/heap"
	"time"
)

// past is a heap of the keys with values that are away or were loaded. It is ordered by a time
// before which none of these values was added. Loaded values have no place in Queue.age, so past
// tells their age. The queue corrects a key's time only when it needs the oldest and that key is in
// front.
type past[K comparable, V any] []*entry[K, V]

func (p past[K, V]) Len() int           { return len(p) }
func (p past[K, V]) Less(i, j int) bool { return p[i].away.oldest.Before(p[j].away.oldest) }

func (p past[K, V]) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	p[i].away.index, p[j].away.index = i, j
}

func (p *past[K, V]) Push(x any) {
	e := x.(*entry[K, V])
	e.away.index = len(*p)
	*p = append(*p, e)
}

func (p *past[K, V]) Pop() any {
	last := len(*p) - 1
	e := (*p)[last]
	(*p)[last] = nil
	*p = (*p)[:last]
	if cap(*p) > minShrink && len(*p) < cap(*p)/4 {
		*p = append(make(past[K, V], 0, 2*len(*p)), *p...)
	}
	return e
}

// oldest returns when the first of all values was added, or zero if there is none.
func (q *Queue[K, V]) oldest() (since time.Time) {
	if q.age.front != nil {
		since = q.age.front.item.since
	}
	for len(q.past) > 0 {
		e := q.past[0]
		if oldest := e.oldest(); oldest.After(e.away.oldest) {
			e.away.oldest = oldest
			heap.Fix(&q.past, 0)
			continue
		}
		if since.IsZero() || e.away.oldest.Before(since) {
			since = e.away.oldest
		}
		break
	}
	return since
}

// oldest returns a time before which no value of e that is away or was loaded was added.
func (e *entry[K, V]) oldest() time.Time {
	if e.inFlight != nil && e.inFlight.loaded {
		return e.inFlight.since
	}
	for at := e.front(); at != nil && at != e.away.behind; at = at.next {
		switch {
		case at.item.loaded:
			return at.item.since
		case !at.item.redriven: // loaded values come before those that never left memory
			return e.away.rest
		}
	}
	return e.away.rest
}
