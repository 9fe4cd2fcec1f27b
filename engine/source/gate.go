package source

import (
	"context"
	"sync"
)

// gate bounds how many watch events are on their way from the wire to the consumer, for client-go's
// own buffers have no bound. An informer at the bound leaves the wire alone, which the API server
// notices; should the server lose patience, the watch resumes where it was, or client-go lists
// again.
//
// Events are numbered as they enter. client-go keeps their order, so the one that leaves also
// accounts for all that entered before it, whatever became of them. That is also how the informer
// knows when its position moves without a change: a mark is reached when all that entered before it
// has left.
type gate struct {
	bound uint64
	room  chan struct{} // capacity 1: there may be room, or nothing in flight

	mu     sync.Mutex // guards what follows; no other lock is taken while it is held
	taken  uint64     // the number of the newest event
	passed uint64     // the number of the newest event that has left
	marks  []mark     // not reached yet, in order; at most one per number
}

// mark says what holds once everything that entered before it has left.
type mark struct {
	number   uint64 // of the newest event before it
	position string // where another run can go on
	caughtUp bool   // the informer is then as fresh as the server was when it began
}

func newGate(bound int) *gate { return &gate{bound: uint64(bound), room: make(chan struct{}, 1)} }

// enter waits until there is room for one more event, and returns its number, from 1. One watch at
// a time may wait, and one that is ending.
func (g *gate) enter(ctx context.Context) (number uint64, err error) {
	err = g.wait(ctx, func() bool {
		if g.taken-g.passed >= g.bound {
			return false
		}
		g.taken++
		number = g.taken
		return true
	})
	return number, err
}

// drain waits until nothing is in flight.
func (g *gate) drain(ctx context.Context) error {
	return g.wait(ctx, func() bool { return g.taken == g.passed })
}

// wait returns when holds does, which is called with g.mu.
func (g *gate) wait(ctx context.Context, holds func() bool) error {
	for {
		g.mu.Lock()
		ok := holds()
		g.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-g.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// withdraw takes back the event that entered last and was not sent on.
func (g *gate) withdraw(number uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if number == g.taken && g.passed < g.taken {
		g.taken--
	}
	g.signal() // whoever withdraws may have taken the signal that the next one waits for
}

// mark sets a mark behind the newest event. It reports whether that is reached already; if not,
// leave will report it. Only who lets events enter sets marks.
func (g *gate) mark(position string, caughtUp bool) (m mark, reached bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m = mark{number: g.taken, position: position, caughtUp: caughtUp}
	if g.passed >= g.taken {
		return m, true
	}
	if last := len(g.marks) - 1; last >= 0 && g.marks[last].number == m.number {
		m.caughtUp = m.caughtUp || g.marks[last].caughtUp
		g.marks[last] = m
	} else {
		g.marks = append(g.marks, m)
	}
	return m, false
}

// leave says that the event with the number has been taken. It calls reach for each mark that is
// reached by that, before anything else can enter or be marked as reached.
func (g *gate) leave(number uint64, reach func(mark)) {
	for {
		m, ok := g.next(number)
		if !ok {
			return
		}
		reach(m)
	}
}

// next returns the next mark that is reached once the event with the number has left. If there is
// none, the event leaves.
func (g *gate) next(number uint64) (m mark, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.marks) > 0 && g.marks[0].number <= number {
		m, g.marks = g.marks[0], g.marks[1:]
		return m, true
	}
	if len(g.marks) == 0 {
		g.marks = nil // and its memory
	}
	if number > g.passed {
		g.passed = number
		g.signal()
	}
	return mark{}, false
}

// reset forgets what is in flight: the client-go informer that had it has ended.
func (g *gate) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passed, g.marks = g.taken, nil
	g.signal()
}

// signal is called with g.mu.
func (g *gate) signal() {
	select {
	case g.room <- struct{}{}:
	default:
	}
}

// depth returns how many events are in flight.
func (g *gate) depth() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int(g.taken - g.passed)
}
