// Package heap keeps the least of many elements at hand. Each element knows its place, so that it
// can be moved or removed without a search.
package heap

import "slices"

// Out is the place of an element that is in no heap.
const Out = -1

// minShrink is the number of elements below which giving memory back is not worth it.
const minShrink = 1024

// Order says how a heap compares its elements. Its zero value must work; it usually has no fields.
type Order[T any] interface {
	// Less reports whether a comes before b.
	Less(a, b T) bool
	// Place returns where an element has its place. The heap sets it, and sets it to Out when the
	// element leaves.
	Place(of T) *int
}

// Heap is a heap of elements in the order O. The zero Heap is empty. Its memory follows what it
// holds. It is not safe for concurrent use.
type Heap[T any, O Order[T]] struct{ all []T }

// Len returns the number of elements.
func (h *Heap[T, O]) Len() int { return len(h.all) }

// Cap returns the number of elements for which the heap has memory.
func (h *Heap[T, O]) Cap() int { return cap(h.all) }

// First returns the element that comes before all others. The heap must not be empty.
func (h *Heap[T, O]) First() T { return h.all[0] }

// All returns the elements in no order. The caller must not change the slice, nor keep it.
func (h *Heap[T, O]) All() []T { return h.all }

// Push adds an element that is in no heap.
func (h *Heap[T, O]) Push(x T) {
	h.all = append(h.all, x)
	h.put(len(h.all)-1, x)
	h.up(len(h.all) - 1)
}

// Pop removes the first element and returns it. The heap must not be empty.
func (h *Heap[T, O]) Pop() T {
	first := h.all[0]
	h.Remove(first)
	return first
}

// Remove removes an element, which must be there.
func (h *Heap[T, O]) Remove(x T) {
	var order O
	at, last := *order.Place(x), len(h.all)-1
	moved := h.all[last]
	clear(h.all[last:])
	h.all = h.all[:last]
	if at != last {
		h.put(at, moved)
		h.Fix(moved)
	}
	*order.Place(x) = Out
	h.shrink()
}

// Fix restores the order after an element has changed.
func (h *Heap[T, O]) Fix(x T) {
	var order O
	at := *order.Place(x)
	if !h.down(at) {
		h.up(at)
	}
}

// Extract removes the elements that chosen accepts, and returns them in order.
func (h *Heap[T, O]) Extract(chosen func(T) bool) (out []T) {
	var order O
	var rest []T
	for _, x := range h.all {
		if chosen(x) {
			out = append(out, x)
		} else {
			rest = append(rest, x)
		}
	}
	h.all = rest
	for _, x := range out {
		*order.Place(x) = Out
	}
	for at, x := range h.all {
		*order.Place(x) = at
	}
	for at := len(h.all)/2 - 1; at >= 0; at-- {
		h.down(at)
	}
	slices.SortFunc(out, func(a, b T) int {
		switch {
		case order.Less(a, b):
			return -1
		case order.Less(b, a):
			return 1
		}
		return 0
	})
	return out
}

func (h *Heap[T, O]) put(at int, x T) {
	var order O
	h.all[at] = x
	*order.Place(x) = at
}

// up moves the element at a place towards the front.
func (h *Heap[T, O]) up(at int) {
	var order O
	x := h.all[at]
	for at > 0 {
		parent := (at - 1) / 2
		if !order.Less(x, h.all[parent]) {
			break
		}
		h.put(at, h.all[parent])
		at = parent
	}
	h.put(at, x)
}

// down moves the element at a place towards the end, and reports whether it moved.
func (h *Heap[T, O]) down(from int) (moved bool) {
	var order O
	at, x := from, h.all[from]
	for {
		child := 2*at + 1
		if child >= len(h.all) {
			break
		}
		if right := child + 1; right < len(h.all) && order.Less(h.all[right], h.all[child]) {
			child = right
		}
		if !order.Less(h.all[child], x) {
			break
		}
		h.put(at, h.all[child])
		at = child
	}
	h.put(at, x)
	return at != from
}

// shrink moves the elements to less memory if three quarters of it are empty.
func (h *Heap[T, O]) shrink() {
	if cap(h.all) > minShrink && len(h.all) < cap(h.all)/4 {
		h.all = append(make([]T, 0, 2*len(h.all)), h.all...)
	}
}
