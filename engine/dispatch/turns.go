package dispatch

// turns are lanes that take turns: the first one comes next. The zero turns are empty. Whatever
// their number, both methods take the same time.
type turns struct {
	lanes []*Lane
	taken int // lanes at the front that have been taken
}

func (t *turns) isEmpty() bool { return t.taken == len(t.lanes) }

func (t *turns) add(l *Lane) { t.lanes = append(t.lanes, l) }

// next takes the first lane. There must be one.
func (t *turns) next() *Lane {
	l := t.lanes[t.taken]
	t.lanes[t.taken] = nil
	t.taken++
	if 2*t.taken >= len(t.lanes) { // moves no more lanes than were taken since it last did
		n := copy(t.lanes, t.lanes[t.taken:])
		clear(t.lanes[n:])
		t.lanes, t.taken = t.lanes[:n], 0
	}
	return l
}
