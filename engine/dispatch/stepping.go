package dispatch

import (
	"context"
	"time"
)

// step prepares the Dispatcher for Step.
func (d *Dispatcher) step() {
	d.start = func(part func()) { part() }
	d.to.Retry.exact, d.ownRetry.exact = true, true
}

// Step makes the next attempt, to its end: it returns when the handler has answered. It does what
// Run does, except that it neither waits until the handler is ready nor observes how many events
// the handler takes at once. ok is false if there was nothing to deliver. Then due says when the
// Dispatcher may load deliveries again that only a store holds; zero if there are none.
func (d *Dispatcher) Step(ctx context.Context) (due time.Time, ok bool) {
	for {
		now := d.opts.Clock.Now()
		lane, wait := d.hungry.next(now)
		if lane != nil {
			lane.load()
			continue
		}
		if j, ok := d.take(false); ok {
			d.opts.Journal.Await(j.item.Cut)
			d.launch(ctx, ctx, j)
			return time.Time{}, true
		}
		if wait > 0 {
			return now.Add(wait), false
		}
		return time.Time{}, false
	}
}
