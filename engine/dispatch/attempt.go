package dispatch

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// flight is one attempt at a delivery, from the time it is taken from its lane until it lands.
type flight struct {
	job
	event handler.Event // not changed once the handler has it
	began time.Time
	// isMade says that the event went to the handler, or that the rule's own actions have been made.
	isMade bool
	// does is what the attempt has done if it succeeds; zero: the handler acknowledges the event.
	does trail.Verdict
}

// launch begins the attempt at j, and does not block. run is the context of Run, which ends before
// ctx.
//
// An attempt goes through these stages, and each of them may end it:
//
//	resolve     drops a change that the rule made itself, and postpones one that it may have made
//	repeat      performs an answer again that was recorded and not completed
//	slow        delays an event of rules that chase each other
//	prepare     has the Preparer decide and make payload and attachments; if the rule has no
//	            handler, or that has acknowledged the event, performs the rule's own actions
//	hand        gives the event to the handler, and performs the actions of its answer; then
//	            returns to prepare if the rule acts itself
//
// The last two decide the result.
func (d *Dispatcher) launch(ctx, run context.Context, j job) {
	f := &flight{job: j}
	if f.item.Value.Version != "" && !d.resolve(f) {
		return
	}
	d.begin(f)
	if f.lane.traits.needsNothing(&f.item.Value) {
		d.hand(ctx, run, f)
		return
	}
	d.start(func() { // the evaluation takes as long as its rule allows
		for _, stage := range []func(ctx, run context.Context, f *flight) (ended bool){
			d.repeat, d.slow, d.prepare, d.hand,
		} {
			if stage(ctx, run, f) {
				return
			}
		}
	})
}

// begin begins the attempt.
func (d *Dispatcher) begin(f *flight) {
	f.item.Value.Attempts++
	f.event = f.lane.event(&f.item)
	f.began = d.opts.Clock.Now()
}

// note remembers what becomes of the attempt.
func (f *flight) note(v trail.Verdict, at time.Time) { f.noteWith(v, at, "", false) }

// noteWith is note for an attempt that failed for a reason and comes again.
func (f *flight) noteWith(v trail.Verdict, at time.Time, reason string, isConfidential bool) {
	f.lane.opts.Attempts.AddAttempt(f.item.Value.Delta, v, at, trail.Numbers{
		Rule:     f.lane.naming.of(&f.item.Value, f.item.N),
		Attempt:  f.event.Attempt,
		Duration: at.Sub(f.began), Latency: at.Sub(f.item.Since),
		Reason: reason, IsConfidential: isConfidential,
	})
}

// resolve finds out who made the change of f. It returns false if f goes no further: it drops f if
// the rule made the change, and postpones f if nobody knows yet.
func (d *Dispatcher) resolve(f *flight) (goesOn bool) {
	switch f.lane.owned.resolve(&f.item.Value) {
	case ours:
		d.drop(f)
		return false
	case unknown:
		d.postpone(f, askAgainAfter(d.opts.Clock.Since(f.item.Since)))
		return false
	}
	// later changes could not be merged with it before
	if waiting, _ := f.lane.queue.Waiting(f.item.Key); waiting > 0 {
		d.postpone(f, 0)
		return false
	}
	return true
}

// slow postpones f if the Actor asks for that. It slows each event at most once.
func (d *Dispatcher) slow(ctx, _ context.Context, f *flight) (ended bool) {
	v := &f.item.Value
	if d.opts.Actor == nil || !f.lane.traits.acts || v.Weighed {
		return false
	}
	v.Weighed = true
	wait := d.delay(ctx, f)
	if wait <= 0 {
		return false
	}
	v.Attempts--
	d.postpone(f, wait)
	return true
}

// delay asks the Actor. If that panics, delay logs the panic and returns 0.
func (d *Dispatcher) delay(ctx context.Context, f *flight) (wait time.Duration) {
	var err error
	defer d.recovered(f.event, &err)
	return min(d.opts.Actor.Delay(ctx, &f.event), maxDelay)
}

// postpone puts f back. The attempt counts as not handed out.
func (d *Dispatcher) postpone(f *flight, wait time.Duration) {
	within(d.opts.Journal, func() { f.lane.queue.Postpone(f.item.Key, f.item.Value, wait) })
	d.land(f.job)
}

// giveUp ends f because its object has changed or gone since.
func (d *Dispatcher) giveUp(f *flight) {
	f.note(trail.Outdated, d.opts.Clock.Now())
	d.drop(f)
}

// drop ends f without delivering it.
func (d *Dispatcher) drop(f *flight) {
	within(d.opts.Journal, func() { f.lane.done(f.item.Key) })
	d.land(f.job)
}

// hand gives f to the handler, and ends it when the handler has answered. It does not block.
func (d *Dispatcher) hand(ctx, run context.Context, f *flight) (ended bool) {
	if f.isMade = true; !d.isDry(f) {
		f.note(trail.Sent, f.began)
	}
	answered := func(answer handler.Answer, err error) {
		if err == nil && len(answer.Actions) == 0 && !f.lane.traits.actsItself {
			d.settle(run, f, nil)
			return
		}
		d.start(func() { // the handler does not wait for actions, dead letters and the log
			d.answered(ctx, run, f, d.act(ctx, f, answer.Actions, err))
		})
	}
	if submitter, ok := d.to.Handler.(Submitter); ok {
		submitter.Submit(ctx, &f.event, answered)
		return true
	}
	d.start(func() { answered(d.handle(ctx, f.event)) })
	return true
}

// answered goes on with f when its answer's actions have ended with err. It ends f, or performs the
// rule's own actions first. A retry of those does not ask the handler again.
func (d *Dispatcher) answered(ctx, run context.Context, f *flight, err error) {
	if err != nil || !f.lane.traits.actsItself || f.lane.traits.actsNow(&f.item.Value) {
		d.settle(run, f, err)
		return
	}
	now := d.opts.Clock.Now()
	f.note(d.did(f), now)
	d.reportDone(f, now)
	own := *f // the handler may still hold f.event
	own.item.Value.Answer, own.isMade = delivery.Acknowledged, false
	d.prepare(ctx, run, &own)
}

// handle calls the handler.
func (d *Dispatcher) handle(ctx context.Context, ev handler.Event) (_ handler.Answer, err error) {
	defer d.recovered(ev, &err)
	return d.to.Handler.Handle(ctx, ev)
}

// recovered turns a panic into an error, and logs it. The caller defers it.
func (d *Dispatcher) recovered(ev handler.Event, err *error) {
	if p := recover(); p != nil {
		d.log.Error("panic while an event was prepared, handled or settled",
			"rule", ev.Rule, "id", ev.ID, "stack", bounded(string(debug.Stack()), 4096))
		*err = fmt.Errorf("handler panicked: %v", p)
	}
}
