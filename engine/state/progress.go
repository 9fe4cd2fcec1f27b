// How far cuts have come, and what the goroutines of Run have to do.

package state

import (
	"context"
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
}

// init makes the signals. Call it before anything else.
func (p *progress) init() { p.wake, p.stir, p.wakeSync = newSignal(), newSignal(), newSignal() }

// awaitLogged does what [Store.Await] does.
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

// isBehind reports whether the store does not have everything that was recorded.
func (p *progress) isBehind() bool { return !p.stored.has(p.last.Load()) }
