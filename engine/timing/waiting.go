package timing

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// Waiting holds the objects that wait for one rule, by their keys, each with a time in milliseconds
// since any moment that its user chooses. It finds the earliest at once, and takes less than 64
// bytes per object, besides the key. It is not safe for concurrent use. The zero Waiting is empty.
//
// The entries have fixed places. A heap orders them by time, and a hash table with chains finds
// them by key.
type Waiting struct {
	entries []entry
	heap    []uint32 // places of entries; the earliest first
	chains  []uint32 // by hash: the first place of a chain, plus one; 0 if it is empty
	free    uint32   // the first place without an object, plus one; they form a chain
	seed    maphash.Seed
}

type entry struct {
	key  string
	at   int64
	next uint32 // in its chain: a place plus one
	heap uint32 // where the heap has the place
}

// minChains is how many chains the smallest table has.
const minChains = 8

// Len returns how many objects wait.
func (w *Waiting) Len() int { return len(w.heap) }

// Get returns the time of an object.
func (w *Waiting) Get(key string) (at int64, ok bool) {
	place, ok := w.find(key)
	if !ok {
		return 0, false
	}
	return w.entries[place].at, true
}

// First returns the object with the earliest time. Of equal times any may come first.
func (w *Waiting) First() (key string, at int64, ok bool) {
	if len(w.heap) == 0 {
		return "", 0, false
	}
	e := &w.entries[w.heap[0]]
	return e.key, e.at, true
}

// All returns the objects in no order.
func (w *Waiting) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for _, place := range w.heap {
			if e := &w.entries[place]; !yield(e.key, e.at) {
				return
			}
		}
	}
}

// Until returns the objects whose time is at most at, in no order but that of the heap: the first
// comes first. It looks at no others, besides two for each.
func (w *Waiting) Until(at int64) iter.Seq[string] {
	return func(yield func(string) bool) {
		var visit func(i uint32) bool
		visit = func(i uint32) bool {
			if i >= uint32(len(w.heap)) || w.entries[w.heap[i]].at > at {
				return true
			}
			return yield(w.entries[w.heap[i]].key) && visit(2*i+1) && visit(2*i+2)
		}
		visit(0)
	}
}

// Put adds an object, or replaces its key's memory and its time.
func (w *Waiting) Put(key string, at int64) {
	if place, ok := w.find(key); ok {
		e := &w.entries[place]
		isSame := e.at == at
		if e.key, e.at = key, at; isSame {
			return
		}
		w.up(e.heap)
		w.down(w.entries[place].heap)
		return
	}
	if len(w.heap) >= len(w.chains) {
		w.rehash(max(minChains, 2*len(w.chains)))
	}
	place := w.slot()
	chain := w.chain(key)
	w.entries[place] = entry{key: key, at: at, next: *chain, heap: uint32(len(w.heap))}
	*chain = place + 1
	w.heap = append(w.heap, place)
	w.up(uint32(len(w.heap) - 1))
}

// Delete removes an object, if it is there.
func (w *Waiting) Delete(key string) {
	place, ok := w.find(key)
	if !ok {
		return
	}
	e := &w.entries[place]
	link := w.chain(key)
	for *link != place+1 {
		link = &w.entries[*link-1].next
	}
	*link = e.next
	at := e.heap
	last := uint32(len(w.heap) - 1)
	w.swap(at, last)
	w.heap = w.heap[:last]
	if at < last {
		w.up(at)
		w.down(at)
	}
	*e = entry{next: w.free}
	w.free = place + 1
	if len(w.heap) == 0 {
		*w = Waiting{} // gives the memory back
	}
}

// slot returns a place for a new entry.
func (w *Waiting) slot() uint32 {
	if w.free == 0 {
		w.entries = append(w.entries, entry{})
		return uint32(len(w.entries) - 1)
	}
	place := w.free - 1
	w.free = w.entries[place].next
	return place
}

func (w *Waiting) find(key string) (place uint32, ok bool) {
	if len(w.chains) == 0 {
		return 0, false
	}
	for next := *w.chain(key); next != 0; next = w.entries[next-1].next {
		if w.entries[next-1].key == key {
			return next - 1, true
		}
	}
	return 0, false
}

// chain returns the link to the first entry of the key's chain.
func (w *Waiting) chain(key string) *uint32 {
	shift := 64 - bits.TrailingZeros(uint(len(w.chains)))
	return &w.chains[maphash.String(w.seed, key)>>shift]
}

// rehash makes a table of n chains, a power of two.
func (w *Waiting) rehash(n int) {
	if len(w.chains) == 0 {
		w.seed = maphash.MakeSeed()
	}
	w.chains = make([]uint32, n)
	for _, place := range w.heap {
		e := &w.entries[place]
		chain := w.chain(e.key)
		e.next, *chain = *chain, place+1
	}
}

func (w *Waiting) less(i, j uint32) bool {
	return w.entries[w.heap[i]].at < w.entries[w.heap[j]].at
}

func (w *Waiting) swap(i, j uint32) {
	w.heap[i], w.heap[j] = w.heap[j], w.heap[i]
	w.entries[w.heap[i]].heap, w.entries[w.heap[j]].heap = i, j
}

// up moves an entry towards the front of the heap.
func (w *Waiting) up(i uint32) {
	for i > 0 {
		parent := (i - 1) / 2
		if !w.less(i, parent) {
			return
		}
		w.swap(i, parent)
		i = parent
	}
}

// down moves an entry towards the end of the heap.
func (w *Waiting) down(i uint32) {
	n := uint32(len(w.heap))
	for {
		child := 2*i + 1
		if child+1 < n && w.less(child+1, child) {
			child++
		}
		if child >= n || !w.less(child, i) {
			return
		}
		w.swap(i, child)
		i = child
	}
}
