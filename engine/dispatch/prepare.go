package dispatch

import (
	"context"
	"fmt"

	"github.com/informd/informd/engine/delivery"
)

// Preparer completes the deliveries of one rule. Its methods are called concurrently.
type Preparer interface {
	// Prepare returns what an attempt delivers, made from the caches as they are now. The
	// dispatcher calls it just before the attempt. It may take its time, and ends early when ctx
	// ends.
	//
	// The dispatcher treats an error like a handler's. If it wraps handler.ErrReject, the event
	// becomes a dead letter; otherwise the dispatcher repeats the delivery. If Prepared.Delta is
	// set besides an error, later attempts begin with what was prepared. The error's text quotes
	// nothing of objects.
	Prepare(ctx context.Context, d delivery.Draft) (delivery.Prepared, error)
	// IsConfidential reports whether answers and reasons of the rule may quote a Secret. They are
	// then neither recorded nor shown. The result may change from false to true, but not back.
	IsConfidential() bool
}

// renewAfter is the number of refusals in a row as ErrStale after which a delivery is remade from
// the cache. After the first one the dispatcher waits for the change that caused it. That change is
// on its way, and brings the news in order.
const renewAfter = 2

// prepare lets the lane's Preparer complete f. It ends the attempt if there is nothing to deliver,
// if the Preparer fails, or with the rule's own actions if their turn has come.
func (d *Dispatcher) prepare(ctx, run context.Context, f *flight) (ended bool) {
	v := &f.item.Value
	renews, isPointless := f.lane.renews(f)
	if isPointless {
		d.drop(f)
		return true
	}
	// A record may say Stale although the rule, as it is now, reads no change.
	isStale := v.Stale && f.lane.opts.ReadsChange
	isIncomplete := f.lane.preparesAll || v.Undecided || isStale || renews
	if f.lane.opts.Preparer == nil || !isIncomplete {
		return false
	}
	p, err := d.prepared(ctx, f, delivery.Draft{
		Delta: v.Delta, Payload: v.Payload, Undecided: v.Undecided, Stale: isStale, Renew: renews,
		Acknowledged: v.Answer.IsAcknowledged(),
	})
	if err == nil && p.Nothing {
		d.drop(f)
		return true
	}
	isAnother := false
	if p.Delta.Object != nil {
		isAnother = d.adopt(f, p, renews)
	}
	if err != nil {
		d.settle(run, f, afterwards(v, err))
		return true
	}
	if isAnother && d.slow(ctx, run, f) {
		return true
	}
	if f.lane.actsNow(v) {
		d.settle(run, f, afterwards(v, d.act(ctx, f, p.Actions, nil)))
		return true
	}
	return false
}

// afterwards says of an error that the handler was done with the event before, if it was.
func afterwards(v *delivery.Delivery, err error) error {
	if err == nil || !v.Answer.IsAcknowledged() {
		return err
	}
	return fmt.Errorf("the handler acknowledged the event, but the rule's own actions failed: %w", err)
}

// prepared calls the Preparer, and turns a panic into an error. Only the Preparer's own errors are
// plain: a panic may quote anything.
func (d *Dispatcher) prepared(
	ctx context.Context, f *flight, draft delivery.Draft,
) (p delivery.Prepared, err error) {
	defer d.recovered(f.event, &err)
	p, err = f.lane.opts.Preparer.Prepare(ctx, draft)
	if err != nil {
		err = &plainError{err}
	}
	return p, err
}

// adopt makes p what f delivers, and reports whether it is another event.
func (d *Dispatcher) adopt(f *flight, p delivery.Prepared, renewed bool) (isAnother bool) {
	v := &f.item.Value
	if isAnother = !sameEvent(p.Delta, v.Delta); isAnother {
		v.Attempts, v.Failures, v.Refusals, v.Weighed = 1, 0, 0, false
	}
	isAsBefore := !v.Undecided && !v.Stale && !renewed
	v.Delta, v.Payload, v.Undecided, v.Stale = p.Delta, p.Payload, false, false
	if !isAsBefore {
		f.event = f.lane.event(v)
	}
	f.event.Attached = p.Attached
	return isAnother
}

// renews reports whether f must be remade from the cache, because its actions were refused for a
// newer change. A change that waits in memory right behind f was merged with it, or will be. If
// only the store holds newer changes, f is pointless: they come in their turn, and the handler has
// seen f. A dead letter that is delivered again never merges, and somebody asked for it. So it is
// remade whatever waits.
func (l *Lane) renews(f *flight) (renews, isPointless bool) {
	if f.item.Value.Refusals < renewAfter {
		return false, false
	}
	if f.item.Redriven {
		return true, false
	}
	waiting, away := l.queue.Waiting(f.item.Key)
	return waiting == 0, away > 0
}
