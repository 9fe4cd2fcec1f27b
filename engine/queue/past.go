package queue

import (
	"container/heap"
	"time"
)

// past are the keys of which something is away or was loaded, by a time before which none of that was added. Values that
// come back from the store have no place in the order of those that never left; this tells their age. A key's time is
// brought up to date only when it is in front, and asked for.
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

// oldest is when the first of all values was added. It is zero if there is none.
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

// oldest is a time before which nothing was added of what is away or was loaded of e.
func (e *entry[K, V]) oldest() time.Time {
	if e.inFlight != nil && e.inFlight.loaded {
		return e.inFlight.since
	}
	for at := e.front(); at != nil && at != e.away.behind; at = at.next {
		switch {
		case at.item.loaded:
			return at.item.since
		case !at.item.redriven: // what was loaded goes before what never left
			return e.away.rest
		}
	}
	return e.away.rest
}
