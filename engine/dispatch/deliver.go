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

// maxActions is how many actions one answer may ask for: handler.Answer says so.
const maxActions = 64

// flight is one attempt at a delivery.
type flight struct {
	job
	event handler.Event // never changed once the handler has it
	began time.Time
}

// deliver begins an attempt at j, and does not block. run is the context of Run, which ends before ctx.
func (d *Dispatcher) deliver(ctx, run context.Context, j job) {
	f := &flight{job: j}
	if !f.item.Value.stale && !f.item.Value.match.Undecided && f.lane.attach == nil {
		d.hand(ctx, run, f, nil)
		return
	}
	d.flights.Go(func() { // what is evaluated takes as long as its rule has it take
		if f.item.Value.match.Undecided && !f.lane.decided(&f.item.Value) {
			d.drop(f)
			return
		}
		if f.item.Value.stale {
			f.lane.refresh(&f.item.Value)
		}
		attached, err := f.lane.attached(f.item.Value)
		if err != nil {
			d.begin(f)
			d.settle(run, f, handler.Reject(err))
			return
		}
		d.hand(ctx, run, f, attached)
	})
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
func (d *Dispatcher) hand(ctx, run context.Context, f *flight, attached map[string][]json.RawMessage) {
	d.begin(f)
	f.event.Attached = attached
	answered := func(answer handler.Answer, err error) {
		if err == nil && len(answer.Actions) == 0 {
			d.settle(run, f, nil)
			return
		}
		d.flights.Go(func() { // actions, dead letters and the log take time that is not the handler's
			d.settle(run, f, d.act(ctx, f.event, answer, err))
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
	d.opts.Journal.Begin()
	if v.result == Rejected || v.result == Dead {
		v = d.bury(f, v, end)
	}
	if v.result.repeats() {
		if v.result != Cancelled {
			lane.logFailure(end, f.event, key, v)
		}
		lane.queue.Retry(key, del, v.after)
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

// act carries out what an answer asks for, if it is done.
func (d *Dispatcher) act(ctx context.Context, ev handler.Event, answer handler.Answer, failure error) (err error) {
	defer d.recovered(ev, &err)
	switch n := len(answer.Actions); {
	case failure != nil || n == 0:
		return failure
	case d.opts.Actor == nil:
		return handler.Reject(fmt.Errorf("the answer asks for %d actions, and the handler is allowed none", n))
	case n > maxActions:
		return handler.Reject(fmt.Errorf("the answer asks for %d actions, more than %d", n, maxActions))
	}
	if err := d.opts.Actor.Check(&ev, answer.Actions); err != nil {
		return err
	}
	return d.opts.Actor.Do(ctx, &ev, answer.Actions)
}

// recovered makes an error of a panic. It is deferred.
func (d *Dispatcher) recovered(ev handler.Event, err *error) {
	if p := recover(); p != nil {
		d.log.Error("handler panicked", "rule", ev.Rule, "id", ev.ID, "stack", bounded(string(debug.Stack()), 4096))
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
	d.match, d.stale = m, false
	return ok
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
