// Package list links values that hold their own places in a list. So moving a value between lists,
// or out of the middle of one, needs no allocation and no search.
package list

// List is a doubly linked list. The zero List is empty.
type List[T any] struct {
	front, back *Element[T]
}

// Element is the place of a value in one list. The value usually has it as a field, with itself as
// the Value.
type Element[T any] struct {
	Value      T
	prev, next *Element[T]
}

// Next returns the element behind e, or nil.
func (e *Element[T]) Next() *Element[T] { return e.next }

// Prev returns the element in front of e, or nil.
func (e *Element[T]) Prev() *Element[T] { return e.prev }

// Front returns the first element, or nil.
func (l *List[T]) Front() *Element[T] { return l.front }

// Back returns the last element, or nil.
func (l *List[T]) Back() *Element[T] { return l.back }

// PushFront puts e, which must be in no list, in front of all others.
func (l *List[T]) PushFront(e *Element[T]) { l.insert(e, nil, l.front) }

// PushBack puts e, which must be in no list, behind all others.
func (l *List[T]) PushBack(e *Element[T]) { l.insert(e, l.back, nil) }

// InsertBefore puts e, which must be in no list, in front of at, or at the end if at is nil.
func (l *List[T]) InsertBefore(e, at *Element[T]) {
	if at == nil {
		l.PushBack(e)
		return
	}
	l.insert(e, at.prev, at)
}

func (l *List[T]) insert(e, prev, next *Element[T]) {
	e.prev, e.next = prev, next
	if prev != nil {
		prev.next = e
	} else {
		l.front = e
	}
	if next != nil {
		next.prev = e
	} else {
		l.back = e
	}
}

// Remove takes e, which must be in l, out of the list.
func (l *List[T]) Remove(e *Element[T]) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		l.front = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		l.back = e.prev
	}
	e.prev, e.next = nil, nil
}
