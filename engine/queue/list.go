package queue

import "math/rand/v2"

// list is a doubly linked list whose elements are embedded in the values that they link. Moving a
// value between lists, or out of the middle of one, needs no allocation and no search. The zero
// list is empty.
type list[T any] struct {
	front, back *element[T]
}

// element is a value's place in one list.
type element[T any] struct {
	prev, next *element[T]
	item       T
}

func (l *list[T]) first() *element[T] { return l.front }
func (l *list[T]) last() *element[T]  { return l.back }

// maxSteps bounds the time that any takes.
const maxSteps = 1024

// any returns one of the last maxSteps elements, at random, or nil if there is none.
func (l *list[T]) any() *element[T] {
	if l.back == nil {
		return nil
	}
	e := l.back
	for range rand.IntN(maxSteps) {
		if e = e.prev; e == nil {
			e = l.back
		}
	}
	return e
}

func (l *list[T]) pushBack(e *element[T]) { l.insert(e, l.back, nil) }

// insertBefore puts e before at, or at the end if at is nil.
func (l *list[T]) insertBefore(e, at *element[T]) {
	if at == nil {
		l.pushBack(e)
		return
	}
	l.insert(e, at.prev, at)
}

func (l *list[T]) insert(e, prev, next *element[T]) {
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

func (l *list[T]) remove(e *element[T]) {
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
