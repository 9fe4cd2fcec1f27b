package dispatch

import (
	"context"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

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

// hand gives f to the handler, and ends it when the handler has answered. It does not block.
func (d *Dispatcher) hand(ctx, run context.Context, f *flight) (ended bool) {
	if f.isMade = true; !f.isDry() {
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
	f.note(f.did(), now)
	f.reportDone(now)
	own := *f // the handler may still hold f.event
	own.item.Value.Answer, own.isMade = delivery.Acknowledged, false
	d.prepare(ctx, run, &own)
}

// handle calls the handler.
func (d *Dispatcher) handle(ctx context.Context, ev handler.Event) (_ handler.Answer, err error) {
	defer d.recovered(ev, &err)
	return d.to.Handler.Handle(ctx, ev)
}

// repeat performs the actions again that answered f in an earlier attempt. If they cannot be read
// or are no longer allowed, the attempt goes on with the next stages, so the handler gets the event
// again.
func (d *Dispatcher) repeat(ctx, run context.Context, f *flight) (ended bool) {
	v := &f.item.Value
	switch {
	case v.Answer == nil, v.Answer.IsAcknowledged() && f.lane.traits.actsItself:
		return false
	case v.Answer.IsAcknowledged(): // the rule had actions of its own when that was recorded
		d.settle(run, f, nil)
		return true
	}
	// a dead letter would otherwise have the payload of another event
	if v.Stale && d.prepare(ctx, run, f) {
		return true
	}
	ended, err := d.redo(ctx, run, f)
	if ended {
		f.isMade = true
		d.answered(ctx, run, f, err)
		return true
	}
	v.Answer = nil
	return false
}

// redo performs the actions of f's answer. ok is false if they cannot be read, are not allowed, or
// are those of a rule that has changed.
func (d *Dispatcher) redo(ctx, run context.Context, f *flight) (ok bool, err error) {
	defer d.recovered(f.event, &err)
	if f.lane.traits.actsNow(&f.item.Value) {
		acts := f.recorded()
		if ok = acts != nil; ok {
			f.beginActs(acts)
			err = f.perform(ctx, run, acts)
		}
		return ok, err
	}
	actions, err := f.item.Value.Answer.Read()
	if err != nil || d.opts.Actor == nil || d.opts.Actor.Check(&f.event, actions) != nil {
		return false, nil
	}
	ok = true // from here on the actions count as performed, even if Do panics
	return ok, d.opts.Actor.Do(ctx, &f.event, actions)
}

// recorded returns the rule's own actions that f's answer has recorded. It returns nil if they are to
// be made again.
func (f *flight) recorded() *delivery.Acts {
	acts, err := f.item.Value.Answer.Acts()
	o := &f.lane.opts
	isAnother := err == nil && o.Account != nil && acts.Digest != o.Account.Digest()
	if err != nil || isAnother || o.Actor == nil || o.Actor.Check(&f.event, acts.Actions()) != nil {
		return nil
	}
	return acts
}
