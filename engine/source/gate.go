package source

import (
	"context"
	"sync"
	"time"

	"github.com/informd/informd/engine/object"
)

// gate bounds how many objects of a generation's watches are on their way through client-go, whose own buffers have no
// bound: taken from the wire, and not yet evaluated by the listeners. Past the bound the wire is left alone, which
// the API server notices; should it lose patience, the reflector resumes or lists again.
//
// client-go keeps order, so the evaluation of an object also accounts for all that came before it, whatever became of
// them.
type gate struct {
	bound   int
	stalled time.Duration

	mu     sync.Mutex
	number map[*object.Object]uint64 // of what is under way
	order  []*object.Object          // what is under way, oldest first; at most bound
	taken  uint64                    // how many ever were; the newest one's number
	began  uint64                    // how many evaluations ever began, of anything
	busy   bool                      // the listeners are evaluating something
	passed chan struct{}             // capacity 1: there may be room
}

func newGate(bound int, stalled time.Duration) *gate {
	return &gate{bound: bound, stalled: stalled, number: map[*object.Object]uint64{}, passed: make(chan struct{}, 1)}
}

// enter waits until there is room for o, and counts it. One watch at a time may wait, and one that is ending.
func (g *gate) enter(ctx context.Context, o *object.Object) error {
	for {
		g.mu.Lock()
		if len(g.order) < g.bound {
			g.taken++
			g.number[o] = g.taken
			g.order = append(g.order, o)
			g.mu.Unlock()
			return nil
		}
		before := g.began
		g.mu.Unlock()
		if err := g.wait(ctx, before); err != nil {
			return err
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
		case <-g.passed:
			return nil
		case <-timer.C:
			g.mu.Lock()
			if !g.busy && g.began == before {
				g.forget(len(g.order))
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
func (g *gate) withdraw(o *object.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := len(g.order) - 1; last >= 0 && g.order[last] == o {
		g.order = g.order[:last]
		delete(g.number, o)
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

// end tells that o, which may never have entered, has been evaluated.
func (g *gate) end(o *object.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = false
	n, ok := g.number[o]
	if !ok {
		return
	}
	upTo := 0
	for upTo < len(g.order) && g.number[g.order[upTo]] <= n {
		upTo++
	}
	g.forget(upTo)
	g.signal()
}

func (g *gate) signal() {
	select {
	case g.passed <- struct{}{}:
	default:
	}
}

// forget, with g.mu, the oldest n.
func (g *gate) forget(n int) {
	for i, o := range g.order[:n] {
		delete(g.number, o)
		g.order[i] = nil
	}
	g.order = g.order[n:]
}

// depth is how many are under way.
func (g *gate) depth() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.order)
}
