package dispatch

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// flight is one attempt at a delivery, from when it is taken from its lane until it lands.
type flight struct {
	job
	event handler.Event // never changed once the handler has it
	began time.Time
}

// launch begins the attempt at j, and does not block. run is the context of Run, which ends before ctx.
//
// An attempt goes through these stages, and each of them may end it:
//
//	isForeign   a change that the rule made itself is not delivered; one that may be waits
//	repeat      an answer that was recorded and not carried out is carried out again
//	slow        an event of rules that chase each other waits
//	prepare     the Preparer decides, and makes payload and attachments; or the actions of a rule
//	            that acts itself, which are carried out
//	hand        the handler gets the event, and the actions of its answer are carried out
//
// The last ones settle what came of it.
func (d *Dispatcher) launch(ctx, run context.Context, j job) {
	f := &flight{job: j}
	if f.item.Value.Version != "" && !d.isForeign(f) {
		return
	}
	d.begin(f)
	if f.lane.isPlain && isPlain(&f.item.Value) {
		d.hand(ctx, run, f)
		return
	}
	d.flights.Go(func() { // what is evaluated takes as long as its rule lets it
		for _, stage := range []func(ctx, run context.Context, f *flight) (ended bool){d.repeat, d.slow, d.prepare, d.hand} {
			if stage(ctx, run, f) {
				return
			}
		}
	})
}

// begin begins the attempt.
func (d *Dispatcher) begin(f *flight) {
	f.item.Value.Attempts++
	f.event = f.lane.event(&f.item.Value)
	f.began = d.opts.Clock.Now()
}

// isForeign reports whether somebody else made the change of f, and clears its Version. If the rule made it, f ends. If that
// is not known yet, f waits.
func (d *Dispatcher) isForeign(f *flight) bool {
	lane, v := f.lane, &f.item.Value
	switch lane.whose(v) {
	case ours:
		lane.vanished(f.item.Key)
		d.drop(f)
		return false
	case unsettled:
		d.postpone(f, min(max(d.opts.Clock.Since(f.item.Since)/4, minSettle), maxSettle))
		return false
	}
	lane.settled(f.item.Key, 1)
	v.Version = ""
	if waiting, _ := lane.queue.Waiting(f.item.Key); waiting > 0 { // what came behind it could not be merged before
		d.postpone(f, 0)
		return false
	}
	return true
}

// slow puts f back for a while if the Actor asks for that. Each event is slowed once at most.
func (d *Dispatcher) slow(ctx, _ context.Context, f *flight) (ended bool) {
	v := &f.item.Value
	if d.opts.Actor == nil || !f.lane.acts || v.Weighed {
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

// delay asks the Actor. It returns 0 if that panics, which is logged.
func (d *Dispatcher) delay(ctx context.Context, f *flight) (wait time.Duration) {
	var err error
	defer d.recovered(f.event, &err)
	return min(d.opts.Actor.Delay(ctx, &f.event), maxDelay)
}

// postpone puts f back. It counts as not handed out.
func (d *Dispatcher) postpone(f *flight, wait time.Duration) {
	d.opts.Journal.Begin()
	f.lane.queue.Postpone(f.item.Key, f.item.Value, wait)
	d.opts.Journal.End()
	d.land(f.job)
}

// drop ends f, which is not delivered.
func (d *Dispatcher) drop(f *flight) {
	d.opts.Journal.Begin()
	f.lane.queue.Done(f.item.Key)
	d.opts.Journal.End()
	d.land(f.job)
}

// hand hands f to the handler, which settles it. It does not block.
func (d *Dispatcher) hand(ctx, run context.Context, f *flight) (ended bool) {
	answered := func(answer handler.Answer, err error) {
		if err == nil && len(answer.Actions) == 0 {
			d.settle(run, f, nil)
			return
		}
		d.flights.Go(func() { // actions, dead letters and the log take time that is not the handler's
			d.settle(run, f, d.act(ctx, f, answer.Actions, err))
		})
	}
	if submitter, ok := d.to.Handler.(Submitter); ok {
		submitter.Submit(ctx, &f.event, answered)
		return true
	}
	d.flights.Go(func() { answered(d.handle(ctx, f.event)) })
	return true
}

// handle calls the handler.
func (d *Dispatcher) handle(ctx context.Context, ev handler.Event) (answer handler.Answer, err error) {
	defer d.recovered(ev, &err)
	return d.to.Handler.Handle(ctx, ev)
}

// recovered turns a panic into an error, and logs it. It is deferred.
func (d *Dispatcher) recovered(ev handler.Event, err *error) {
	if p := recover(); p != nil {
		d.log.Error("panic of a handler, or of what prepares or carries out its work", "rule", ev.Rule, "id", ev.ID,
			"stack", bounded(string(debug.Stack()), 4096))
		*err = fmt.Errorf("handler panicked: %v", p)
	}
}
