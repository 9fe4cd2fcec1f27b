package dispatch

import (
	"context"
	"time"
)

// gateRetry is the pause after Recipient.Ready failed.
const gateRetry = time.Second

// Run delivers until ctx ends. Then it takes nothing more and waits for the deliveries in flight.
// Once the Journal's Await has failed, Run takes nothing more, and waits until ctx ends. After
// Options.DrainTimeout, or at Options.Abort, it cancels their contexts as well. What waits stays in
// the lanes. When Run returns, always with nil, every goroutine that it started has ended. It is
// called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	inFlight, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	d.flights.Go(func() { d.load(ctx) })
	d.flights.Go(func() { d.reportCrowding(ctx) })
	for {
		j, ok := d.next(ctx)
		if !ok {
			break
		}
		if !d.await(ctx, j.item.Cut) {
			d.postpone(&flight{job: j}, 0)
			continue
		}
		d.launch(inFlight, ctx, j)
	}
	drained := make(chan struct{})
	go func() {
		d.flights.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-d.opts.Abort:
		cancel()
	case <-time.After(d.opts.DrainTimeout):
		d.log.Warn("deliveries did not end in time: cancelling them", "deliveries", d.InFlight())
		cancel()
	}
	<-drained
	return nil
}

// next waits until the handler is ready and there is a job for it, and takes that. If ok is false,
// ctx has ended.
func (d *Dispatcher) next(ctx context.Context) (j job, ok bool) {
	for !d.isHalted.Load() && d.gate(ctx) {
		if hasRoom, isProbe := d.room(); hasRoom {
			if d.resume(maxRest) {
				continue
			}
			if j, ok := d.take(isProbe); ok {
				return j, true
			}
			if d.resume(0) {
				continue
			}
		}
		select {
		case <-d.wake:
		case <-d.to.Grown:
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return job{}, false
}

// gate waits until the handler is ready. It returns false if ctx has ended.
func (d *Dispatcher) gate(ctx context.Context) bool {
	for complained := false; ctx.Err() == nil; {
		if d.to.Ready == nil {
			return true
		}
		err := d.to.Ready(ctx)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		if !complained {
			d.log.Warn("handler is not ready", "error", bounded(err.Error(), maxLogged))
			complained = true
		}
		select {
		case <-time.After(gateRetry):
		case <-ctx.Done():
		}
	}
	return false
}

// Step makes the next attempt, to its end: it returns when the handler has answered. It does what
// Run does, except that it neither waits until the handler is ready nor observes how many events
// the handler takes at once. ok is false if there was nothing to deliver. Then due says when the
// Dispatcher may load deliveries again that only a store holds; zero if there are none.
func (d *Dispatcher) Step(ctx context.Context) (due time.Time, ok bool) {
	for !d.isHalted.Load() {
		now := d.opts.Clock.Now()
		lane, wait := d.hungry.next(now)
		if lane != nil {
			lane.load()
			continue
		}
		if j, ok := d.take(false); ok {
			if !d.await(ctx, j.item.Cut) {
				d.postpone(&flight{job: j}, 0)
				break
			}
			d.launch(ctx, ctx, j)
			return time.Time{}, true
		}
		if wait > 0 {
			return now.Add(wait), false
		}
		break
	}
	return time.Time{}, false
}
