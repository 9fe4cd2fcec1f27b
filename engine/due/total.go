package due

import (
	"slices"
	"sync"
	"time"
)

// Total counts the objects that wait for one rule, over all informers. It is safe for concurrent
// use. The zero Total counts nothing yet.
type Total struct {
	mu  sync.Mutex // a leaf
	all []*objects
}

func (t *Total) add(w *objects) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.all, w) {
		t.all = append(t.all, w)
	}
}

// remove takes out what does not wait any more.
func (t *Total) remove(w *objects) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(t.all, func(other *objects) bool { return other == w })
}

// Stats returns how many objects wait, and when the first of them is ready; the zero time if none
// waits.
func (t *Total) Stats() (pending int, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.all {
		n := int(w.count.Load())
		at := time.UnixMilli(w.next.Load())
		if n > 0 && (pending == 0 || at.Before(next)) {
			next = at
		}
		pending += n
	}
	return pending, next
}
