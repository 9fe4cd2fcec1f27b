package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// flight is one attempt at a delivery.
type flight struct {
	job
	event handler.Event // never changed once the handler has it
	began time.Time
}

// deliver begins an attempt at j, and does not block. run is the context of Run, which ends before ctx.
func (d *Dispatcher) deliver(ctx, run context.Context, j job) {
	f := &flight{job: j}
	v := &f.item.Value
	if v.match.Version != "" && !d.isSettled(f) {
		return
	}
	if f.lane.isPlain && v.isPlain() {
		d.begin(f)
		d.hand(ctx, run, f)
		return
	}
	d.flights.Go(func() { // what is evaluated takes as long as its rule has it take
		d.prepare(ctx, run, f)
	})
}

// prepare makes what is handed over just before that, and hands it over.
func (d *Dispatcher) prepare(ctx, run context.Context, f *flight) {
	lane, v := f.lane, &f.item.Value
	if v.match.Undecided && !lane.decided(v) || v.refusals >= renewAfter && !lane.revived(f) {
		d.drop(f)
		return
	}
	if v.stale {
		lane.refresh(v)
	}
	d.begin(f)
	if v.answer != nil {
		if ok, err := d.repeat(ctx, f); ok {
			d.settle(run, f, err)
			return
		}
	}
	if wait := d.delay(ctx, f); wait > 0 {
		v.attempts--
		d.postpone(f, wait)
		return
	}
	if lane.actions != nil {
		actions, err := d.evaluate(ctx, f)
		d.settle(run, f, d.act(ctx, f, actions, err))
		return
	}
	attached, err := lane.attached(*v)
	if err != nil {
		d.settle(run, f, handler.Reject(err))
		return
	}
	f.event.Attached = attached
	d.hand(ctx, run, f)
}

// isSettled tells whether f, of which it was not known whose change it is, is somebody else's. Else it has been seen to.
func (d *Dispatcher) isSettled(f *flight) bool {
	lane, v := f.lane, &f.item.Value
	switch lane.whose(*v) {
	case ours:
		lane.vanished(f.item.Key)
		d.drop(f)
		return false
	case unsettled:
		d.postpone(f, min(max(time.Since(f.item.Since)/4, minSettle), maxSettle))
		return false
	}
	lane.settled(f.item.Key, 1)
	v.match.Version = ""
	if waiting, _ := lane.queue.Waiting(f.item.Key); waiting > 0 { // what came behind it could not be merged before
		d.postpone(f, 0)
		return false
	}
	return true
}

// delay tells how long f is to wait before it is handed over. It is asked once of each event.
func (d *Dispatcher) delay(ctx context.Context, f *flight) (wait time.Duration) {
	if d.opts.Actor == nil || !f.lane.acts || f.item.Value.weighed {
		return 0
	}
	f.item.Value.weighed = true
	var err error // was logged
	defer d.recovered(f.event, &err)
	return min(d.opts.Actor.Delay(ctx, &f.event), maxDelay)
}

// postpone puts f back, which is not handed over yet.
func (d *Dispatcher) postpone(f *flight, wait time.Duration) {
	d.opts.Journal.Begin()
	f.lane.queue.Postpone(f.item.Key, f.item.Value, wait)
	d.opts.Journal.End()
	d.land(f.job)
}

// drop ends f, which is not to be delivered.
func (d *Dispatcher) drop(f *flight) {
	d.opts.Journal.Begin()
	f.lane.queue.Done(f.item.Key)
	d.opts.Journal.End()
	d.land(f.job)
}

// begin begins the attempt.
func (d *Dispatcher) begin(f *flight) {
	f.item.Value.attempts++
	f.event = f.lane.event(f.item.Value)
	f.began = time.Now()
}

// hand hands f to the handler.
func (d *Dispatcher) hand(ctx, run context.Context, f *flight) {
	answered := func(answer handler.Answer, err error) {
		if err == nil && len(answer.Actions) == 0 {
			d.settle(run, f, nil)
			return
		}
		d.flights.Go(func() { // actions, dead letters and the log take time that is not the handler's
			d.settle(run, f, d.act(ctx, f, answer.Actions, err))
		})
	}
	if submitter, ok := d.handler.Handler.(Submitter); ok {
		submitter.Submit(ctx, &f.event, answered)
		return
	}
	d.flights.Go(func() { answered(d.handle(ctx, f.event)) })
}

// settle settles what becomes of f, which ends.
func (d *Dispatcher) settle(run context.Context, f *flight, err error) {
	lane, key, del := f.lane, f.item.Key, f.item.Value
	end := time.Now()
	var v verdict
	if run.Err() != nil && err != nil && !errors.Is(err, handler.ErrReject) {
		v = verdict{result: Cancelled} // perhaps for no other reason than that everything ends
		del.attempts--
	} else {
		del, v = d.handler.Retry.judge(del, err)
	}
	if v.result != Cancelled && (v.result != Retried || lane.actions != nil) {
		del.answer = nil
	}
	d.opts.Journal.Begin()
	if v.result == Rejected || v.result == Dead {
		v = d.bury(f, v, end)
	}
	if v.result.repeats() {
		if v.result != Cancelled && (del.refusals == 0 || del.refusals > renewAfter) { // that things change is no failure
			lane.logFailure(end, f.event, key, v)
		}
		lane.putBack(key, del, v.after)
	} else {
		lane.queue.Done(key)
	}
	d.opts.Journal.End()
	if d.opts.Observer.Delivered != nil {
		d.opts.Observer.Delivered(Delivery{
			Rule: lane.rule, Handler: d.handler.Name, Result: v.result,
			Duration: end.Sub(f.began), Latency: end.Sub(f.item.Since),
		})
	}
	d.land(f.job)
}

// handle has the handler answer.
func (d *Dispatcher) handle(ctx context.Context, ev handler.Event) (answer handler.Answer, err error) {
	defer d.recovered(ev, &err)
	return d.handler.Handler.Handle(ctx, ev)
}

// recovered makes an error of a panic. It is deferred.
func (d *Dispatcher) recovered(ev handler.Event, err *error) {
	if p := recover(); p != nil {
		d.log.Error("panic of a handler, or of what carries out its actions", "rule", ev.Rule, "id", ev.ID, "stack", bounded(string(debug.Stack()), 4096))
		*err = fmt.Errorf("handler panicked: %v", p)
	}
}

// bury makes a dead letter of f. If that cannot be kept, the event is repeated rather than lost.
func (d *Dispatcher) bury(f *flight, v verdict, now time.Time) verdict {
	ev := f.event
	letter := Letter{
		ID: ev.ID, Rule: ev.Rule, Handler: d.handler.Name, Resource: ev.Resource, Key: f.item.Key, Match: f.item.Value.match,
		Reason: bounded(v.reason, maxReason), Attempts: ev.Attempt, Since: f.item.Since, Died: now,
	}
	letter.Match.Payload = ev.Payload // made anew, perhaps
	attrs := []any{
		"rule", ev.Rule, "key", f.item.Key.String(), "id", ev.ID, "attempt", ev.Attempt,
		"reason", bounded(v.reason, maxLogged),
	}
	if err := d.dead.Add(letter); err != nil {
		d.log.Error("dead letter could not be kept; the event is repeated",
			append(attrs, "error", bounded(err.Error(), maxLogged))...)
		return verdict{result: Retried, reason: v.reason, after: d.handler.Retry.MaxBackoff}
	}
	d.log.Warn("event became a dead letter", attrs...)
	return v
}

// event is what the handler sees of a delivery.
func (l *Lane) event(d delivery) handler.Event {
	return eventOf(d.match, l.rule, l.resource, d.attempts)
}

// Event is what the handler saw of the letter the last time, without what was attached.
func (l Letter) Event() handler.Event { return eventOf(l.Match, l.Rule, l.Resource, l.Attempts) }

// eventOf shares the bytes of the objects and of the payload.
func eventOf(m rule.Match, name string, resource handler.Resource, attempt int) handler.Event {
	change := m.Delta
	o := change.Object
	ev := handler.Event{
		ID: change.ID(name), Rule: name, Event: change.Type.String(), Attempt: attempt, Resource: resource,
		Namespace: o.Namespace(), Name: o.Name(), UID: o.UID(), ResourceVersion: o.ResourceVersion(),
		Payload: m.Payload,
	}
	if ev.Payload != nil {
		return ev
	}
	ev.Object = o.JSON()
	if change.Type == delta.Updated && change.Old != nil {
		ev.Old = change.Old.JSON()
	}
	return ev
}

// decided tells whether a delivery that was undecided is to be made.
func (l *Lane) decided(d *delivery) bool {
	m, ok := l.decide(d.match.Delta)
	m.Version = ""
	d.match, d.stale = m, false
	return ok
}

// putBack puts back what is to be repeated. What was refused for what came after it is merged with that, under Every too.
func (l *Lane) putBack(key delta.Key, d delivery, after time.Duration) {
	if d.refusals < renewAfter {
		l.queue.Retry(key, d, after)
		return
	}
	l.queue.Shorten(key, d, after)
	stats := l.queue.Stats()
	l.lost.Store(stats.Shortened + stats.Dropped) // it is not for a lack of memory
}

// revived makes f anew, which was refused for what came after it, and tells whether it is still to be delivered. What waits right
// behind it was merged with it, or will be. What is in the store alone is told of in its turn, and the handler has seen f. With a
// dead letter nothing is merged, and it was asked for: whatever waits, it is made anew.
func (l *Lane) revived(f *flight) bool {
	waiting, away := l.queue.Waiting(f.item.Key)
	switch redriven := f.item.Value.redriven; {
	case away > 0 && !redriven:
		return false
	case waiting > 0 && !redriven || l.renew == nil:
		return true
	}
	return l.renewed(&f.item.Value)
}

// renewed makes a delivery anew of what there is now, and tells whether it is still to be made.
func (l *Lane) renewed(d *delivery) bool {
	m, ok := l.renew(d.match.Delta)
	if !ok {
		return false
	}
	if !sameEvent(m.Delta, d.match.Delta) {
		d.attempts, d.failures, d.refusals, d.weighed = 0, 0, 0, false
	}
	m.Version = ""
	d.match, d.stale = m, false
	return true
}

// attached is what is sent along with a delivery.
func (l *Lane) attached(d delivery) (map[string][]json.RawMessage, error) {
	if l.attach == nil {
		return nil, nil
	}
	return l.attach(d.match.Delta)
}

// refresh makes the payload of a merged delivery.
func (l *Lane) refresh(d *delivery) {
	d.stale = false
	payload, err := l.remerge(d.match.Delta)
	if err != nil || payload == nil {
		l.dispatcher.log.Debug("payload of a merged change could not be made; the newer one stands",
			"rule", l.rule, "key", d.match.Delta.Key().String())
		return
	}
	d.match.Payload = payload
}
