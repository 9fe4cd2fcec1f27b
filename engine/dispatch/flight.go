package dispatch

import (
	"context"
	"fmt"
	"log/slog"
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
	// isMade says that the event went to the handler, or that the rule's own actions have been
	// made.
	isMade bool
	// does is what the attempt has done if it succeeds; zero: the handler acknowledges the event.
	does trail.Verdict
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

// did returns what an attempt that has succeeded so far has done.
func (f *flight) did() trail.Verdict {
	switch {
	case f.isDry():
		return trail.Tried
	case f.does == 0:
		return trail.Done
	}
	return f.does
}

// isDry reports whether the stage of the attempt is only logged.
func (f *flight) isDry() bool {
	d := f.lane.dispatcher
	if f.does == 0 {
		return d.to.IsDry
	}
	return d.opts.ActsDry && f.does != trail.Idle
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
	ending(f.lane, f.item.Key)
	within(d.opts.Journal, func() { f.lane.done(f.item.Key) })
	d.land(f.job)
}

// recovered turns a panic into an error, and logs it. The caller defers it.
func (d *Dispatcher) recovered(ev handler.Event, err *error) {
	if p := recover(); p != nil {
		d.log.Error("panic while an event was prepared, handled or settled",
			"rule", ev.Rule, "id", ev.ID, "stack", bounded(string(debug.Stack()), 4096))
		*err = fmt.Errorf("handler panicked: %v", p)
	}
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

// beginActs notes what f has done once the rule's own actions, which are made, have succeeded.
func (f *flight) beginActs(acts *delivery.Acts) {
	f.isMade = true
	switch {
	case acts.IsEmpty():
		f.does = trail.Idle
		return
	case acts.OnlyPrunes:
		f.does = trail.Pruned
	default:
		f.does = trail.Acted
	}
	if !f.isDry() {
		f.note(trail.Acts, f.lane.dispatcher.opts.Clock.Now())
	}
}

// reportDone logs what an attempt that succeeded has done.
func (f *flight) reportDone(at time.Time) {
	log := f.lane.dispatcher.log
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return // so that it costs nothing
	}
	log.Debug(done[f.did()],
		"rule", f.lane.naming.rule, "key", f.item.Key.String(), "id", f.event.ID, "event", f.event.Event,
		"attempt", f.event.Attempt, "duration", at.Sub(f.began).Round(time.Microsecond))
}

// done says in the log what an attempt has done.
var done = map[trail.Verdict]string{
	trail.Done:   "delivered",
	trail.Tried:  "dry run: nothing was done",
	trail.Acted:  "actions performed",
	trail.Pruned: "pruned, without other actions",
	trail.Idle:   "no action to perform",
	// The messages of actions that changed nothing.
	trail.Unchanged: "actions had nothing to change",
	trail.Vanished:  "actions changed nothing: an object is gone",
}
