package queue

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
