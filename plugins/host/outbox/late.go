package outbox

import "time"

// lateEvents are the events of a session that are late. Outbox.mu guards them.
type lateEvents struct {
	bySeq    map[uint64]late
	byObject map[object]int // how many of them an object has; none is 0
	slow     int            // how many of them were slow
	cancels  []uint64       // those that the handler was not told about
}

// late is an event that timed out or that nobody wants any more, and that the handler has not
// answered yet.
type late struct {
	object   object
	deadline time.Time
	isSlow   bool
}

func newLateEvents() lateEvents {
	return lateEvents{bySeq: map[uint64]late{}, byObject: map[object]int{}}
}

// add takes the event of a call that was sent.
func (l *lateEvents) add(c *call) {
	one := late{c.object(), c.deadline, c.isSlow}
	l.bySeq[c.seq] = one
	l.byObject[one.object]++
	if one.isSlow {
		l.slow++
	}
	l.cancels = append(l.cancels, c.seq)
}

// remove drops the event with a number, because the handler has let go of it. ok is false if there
// is no such event.
func (l *lateEvents) remove(seq uint64) (ok bool) {
	one, ok := l.bySeq[seq]
	if !ok {
		return false
	}
	delete(l.bySeq, seq)
	if l.byObject[one.object]--; l.byObject[one.object] == 0 {
		delete(l.byObject, one.object)
	}
	if one.isSlow {
		l.slow--
	}
	return true
}

// has reports whether one of the events is of the object.
func (l *lateEvents) has(o object) bool { return len(l.byObject) > 0 && l.byObject[o] > 0 }

// takeCancels returns the numbers of the events that the handler was not told about, once.
func (l *lateEvents) takeCancels() (seqs []uint64) {
	seqs, l.cancels = l.cancels, nil
	return seqs
}

// clear drops all events.
func (l *lateEvents) clear() {
	clear(l.bySeq)
	clear(l.byObject)
	l.slow, l.cancels = 0, nil
}
