package source

import (
	"context"
	"sync"
)

// gate bounds how many watch events are on their way from the wire to the consumer, because
// client-go's own buffers have no bound. At the bound, an informer stops reading from the wire,
// which the API server notices. If the server loses patience and ends the watch, the watch resumes
// where it was, or client-go lists again.
//
// The gate numbers events as they enter. client-go keeps their order, so an event that leaves also
// accounts for all events that entered before it, whatever became of them. Marks use the
// same numbers to move the position without a change. A mark is reached when all events that
// entered before it have left.
type gate struct {
	bound uint64
	room  chan struct{} // capacity 1; a signal to check again for room, or for nothing in flight

	mu     sync.Mutex // guards the fields below; no other lock is taken while it is held
	taken  uint64     // the number of the newest event
	passed uint64     // the number of the newest event that has left
	marks  []mark     // not reached yet, in order; at most one per number
}

// mark says what holds once all events before it have left.
type mark struct {
	number   uint64 // the number of the newest event before the mark
	position string // the resourceVersion from which another run can go on
	caughtUp bool   // then the informer is as fresh as the server was when the informer began
}

func newGate(bound int) *gate { return &gate{bound: uint64(bound), room: make(chan struct{}, 1)} }

// enter waits until there is room for one more event, and returns its number, which begins at 1. At
// most one watch may wait at a time, besides one that is ending.
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

// wait returns when holds returns true. It calls holds with g.mu held.
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

// withdraw removes the event that entered last, if that was not sent on.
func (g *gate) withdraw(number uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if number == g.taken && g.passed < g.taken {
		g.taken--
	}
	g.signal() // the withdrawn watch may have consumed the signal that the next one needs
}

// mark sets a mark after the newest event and returns it. If reached is true, the mark is reached
// already; otherwise leave reports it later. No event may enter meanwhile.
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

// leave notes that the consumer has taken the event with the number. It calls reach for each mark
// that is reached thereby, before the event frees its place, and before any later mark is reached.
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
// none, next lets the event leave and returns false.
func (g *gate) next(number uint64) (m mark, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.marks) > 0 && g.marks[0].number <= number {
		m, g.marks = g.marks[0], g.marks[1:]
		return m, true
	}
	if len(g.marks) == 0 {
		g.marks = nil // frees its memory
	}
	if number > g.passed {
		g.passed = number
		g.signal()
	}
	return mark{}, false
}

// reset forgets the events in flight, because their client-go informer has ended.
func (g *gate) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passed, g.marks = g.taken, nil
	g.signal()
}

// signal wakes a waiting goroutine. It is called with g.mu held.
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
