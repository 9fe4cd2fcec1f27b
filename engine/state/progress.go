// How far cuts have come, and what the goroutines of Run have to do.

package state

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// progress is how far the cuts have come, and what the goroutines of Run have to do next. It knows
// no record. All of it is safe for concurrent use.
type progress struct {
	last atomic.Uint64 // the last cut in which anything was recorded

	started mark // is 1 once Run has begun
	logged  mark // the log has these cuts
	synced  mark // the disk has them, too
	stored  mark // the store has them, too

	wake       signal      // to append at once
	stir       signal      // to append soon
	stirred    atomic.Bool // the goroutine that appends knows that something was recorded
	wakeSync   signal      // to sync at once
	wantsMoved atomic.Bool // to give the store what the log has
	// isLate says that the log does not take records promptly, so that no event waits for it.
	isLate atomic.Bool

	// over is closed once the log takes nothing more. Only end closes it.
	over chan struct{}
	end  func()
}

// init makes the signals. Call it before anything else.
func (p *progress) init() {
	p.wake, p.stir, p.wakeSync = newSignal(), newSignal(), newSignal()
	p.over = make(chan struct{})
	p.end = sync.OnceFunc(func() { close(p.over) })
}

// awaitLogged does what [Store.Await] does, unless the store is strict.
func (p *progress) awaitLogged(cut uint64) {
	if p.logged.has(cut) || p.isLate.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), promptly)
	defer cancel()
	if p.logged.await(ctx, cut, p.wake.send) != nil {
		p.isLate.Store(true)
		if p.logged.has(cut) { // append may have reset isLate just before
			p.isLate.Store(false)
		}
	}
}

// errOver says that the log takes nothing more.
var errOver = errors.New("the log takes nothing more")

// awaitStrictly returns nil once the log has a cut. It returns errOver if the log takes nothing
// more, or the error of ctx if that ends.
func (p *progress) awaitStrictly(ctx context.Context, cut uint64) error {
	for !p.logged.has(cut) {
		more := p.logged.grows()
		if p.logged.has(cut) {
			return nil
		}
		p.wake.send()
		select {
		case <-more:
		case <-p.over:
			if p.logged.has(cut) { // the last append was quicker
				return nil
			}
			return errOver
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// isBehind reports whether the store does not have everything that was recorded.
func (p *progress) isBehind() bool { return !p.stored.has(p.last.Load()) }
