package source

import (
	"context"
	"sync"
	"time"
)

// gate bounds how many objects of a generation's watches are on their way through client-go, whose own buffers have no
// bound: taken from the wire, and not yet evaluated by the listeners. Past the bound the wire is left alone, which
// the API server notices; should it lose patience, the reflector resumes or lists again.
//
// Objects are numbered as they enter. client-go keeps order, so the evaluation of one also accounts for all that came
// before it, whatever became of them.
type gate struct {
	bound   uint64
	stalled time.Duration

	mu     sync.Mutex
	taken  uint64        // the number of the newest
	passed uint64        // the number of the newest of which nothing more is to come
	began  uint64        // how many evaluations ever began, of anything
	busy   bool          // the listeners are evaluating something
	room   chan struct{} // capacity 1: there may be room
}

func newGate(bound int, stalled time.Duration) *gate {
	return &gate{bound: uint64(bound), stalled: stalled, room: make(chan struct{}, 1)}
}

// enter waits until there is room for one more, and numbers it, from 1. One watch at a time may wait, and one that is
// ending.
func (g *gate) enter(ctx context.Context) (number uint64, err error) {
	for {
		g.mu.Lock()
		if g.taken-g.passed < g.bound {
			g.taken++
			number = g.taken
			g.mu.Unlock()
			return number, nil
		}
		before := g.began
		g.mu.Unlock()
		if err := g.wait(ctx, before); err != nil {
			return 0, err
		}
	}
}

// wait returns when something was evaluated. If nothing is for long, though nothing is being evaluated either, then
// client-go has lost what was counted, and the count starts anew: a wrong count must not stop a source for ever.
func (g *gate) wait(ctx context.Context, before uint64) error {
	timer := time.NewTimer(g.stalled)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.room:
			return nil
		case <-timer.C:
			g.mu.Lock()
			if !g.busy && g.began == before {
				g.passed = g.taken
				g.mu.Unlock()
				return nil
			}
			before = g.began
			g.mu.Unlock()
			timer.Reset(g.stalled)
		}
	}
}

// withdraw takes back what entered last and was not sent on.
func (g *gate) withdraw(number uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if number == g.taken && g.passed < g.taken {
		g.taken--
	}
	g.signal() // whoever withdraws may have taken the signal that the next one waits for
}

// begin tells that the listeners are evaluating something.
func (g *gate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = true
	g.began++
}

// end tells that what has the number has been evaluated; 0 is what never entered.
func (g *gate) end(number uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = false
	if number > g.passed {
		g.passed = number
		g.signal()
	}
}

func (g *gate) signal() {
	select {
	case g.room <- struct{}{}:
	default:
	}
}

// depth is how many are under way.
func (g *gate) depth() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int(g.taken - g.passed)
}
