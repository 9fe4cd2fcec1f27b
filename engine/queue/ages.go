package queue

import (
	"time"

	"github.com/informd/informd/internal/heap"
	"github.com/informd/informd/internal/list"
)

// ages finds the oldest value of a queue. Queue.mu guards it.
type ages[K comparable, V any] struct {
	// stayed has the values that wait or are in flight, if they were never away; the oldest in
	// front.
	stayed list.List[*value[V]]
	// past has the keys with values that are away or were loaded. It is ordered by a time before
	// which none of these values was added. ages corrects a key's time only when it needs the
	// oldest and that key is in front.
	past heap.Heap[*entry[K, V], byOldest[K, V]]
}

// byOldest orders the keys of ages.past.
type byOldest[K comparable, V any] struct{}

func (byOldest[K, V]) Less(a, b *entry[K, V]) bool { return a.away.oldest.Before(b.away.oldest) }
func (byOldest[K, V]) Place(of *entry[K, V]) *int  { return &of.away.index }

// enlist takes a value that was never away. Its place in the order of time is near an end: nearly
// all values are the newest, and those that come back are old. So enlist searches from both ends.
func (a *ages[K, V]) enlist(val *value[V]) {
	oldest, newest := a.stayed.Front(), a.stayed.Back()
	for newest != nil {
		switch {
		case !newest.Value.since.After(val.since):
			a.stayed.InsertBefore(&val.age, newest.Next())
			return
		case oldest.Value.since.After(val.since):
			a.stayed.InsertBefore(&val.age, oldest)
			return
		}
		oldest, newest = oldest.Next(), newest.Prev()
	}
	a.stayed.PushBack(&val.age)
}

// oldest returns when the first of all values was added, or zero if there is none.
func (a *ages[K, V]) oldest() (since time.Time) {
	if first := a.stayed.Front(); first != nil {
		since = first.Value.since
	}
	for a.past.Len() > 0 {
		e := a.past.First()
		if oldest := e.oldest(); oldest.After(e.away.oldest) {
			e.away.oldest = oldest
			a.past.Fix(e)
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
	for at := e.front(); at != nil && at != e.away.behind; at = at.Next() {
		switch {
		case at.Value.loaded:
			return at.Value.since
		case !at.Value.redriven: // loaded values come before those that never left memory
			return e.away.rest
		}
	}
	return e.away.rest
}
