package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// maxActions is how many actions one answer may ask for: handler.Answer says so.
const maxActions = 64

// deliver makes one attempt at j and settles what becomes of it. run is the context of Run, which ends before ctx.
func (d *Dispatcher) deliver(ctx, run context.Context, j job) {
	lane, key, del := j.lane, j.item.Key, j.item.Value
	if del.stale {
		lane.refresh(&del)
	}
	del.attempts++
	ev := lane.event(del)
	start := time.Now()
	err := d.handle(ctx, ev)
	end := time.Now()

	var v verdict
	if run.Err() != nil && err != nil && !errors.Is(err, handler.ErrReject) {
		v = verdict{result: Cancelled} // perhaps for no other reason than that everything ends
	} else {
		del, v = d.handler.Retry.judge(del, err)
	}
	if v.result == Rejected || v.result == Dead {
		v = d.bury(j, ev, v, end)
	}
	if v.result.repeats() {
		if v.result != Cancelled {
			lane.logFailure(end, ev, key, v)
		}
		lane.queue.Retry(key, del, v.after)
	} else {
		lane.queue.Done(key)
	}
	if d.opts.Observer.Delivered != nil {
		d.opts.Observer.Delivered(Delivery{
			Rule: lane.rule, Handler: d.handler.Name, Result: v.result,
			Duration: end.Sub(start), Latency: end.Sub(j.item.Since),
		})
	}
}

// handle has the handler answer, and its actions carried out.
func (d *Dispatcher) handle(ctx context.Context, ev handler.Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("handler panicked", "rule", ev.Rule, "id", ev.ID, "stack", bounded(string(debug.Stack()), 4096))
			err = fmt.Errorf("handler panicked: %v", p)
		}
	}()
	answer, err := d.handler.Handler.Handle(ctx, ev)
	switch n := len(answer.Actions); {
	case err != nil || n == 0:
		return err
	case d.opts.Actions == nil:
		return handler.Reject(fmt.Errorf("the answer asks for %d actions, and the handler is allowed none", n))
	case n > maxActions:
		return handler.Reject(fmt.Errorf("the answer asks for %d actions, more than %d", n, maxActions))
	}
	return d.opts.Actions(ctx, ev.Rule, ev, answer.Actions)
}

// bury makes a dead letter of j. If that cannot be kept, the event is repeated rather than lost.
func (d *Dispatcher) bury(j job, ev handler.Event, v verdict, now time.Time) verdict {
	letter := Letter{
		ID: ev.ID, Rule: ev.Rule, Handler: d.handler.Name, Key: j.item.Key, Match: j.item.Value.match,
		Reason: bounded(v.reason, maxReason), Attempts: ev.Attempt, Since: j.item.Since, Died: now,
	}
	letter.Match.Payload = ev.Payload // made anew, perhaps
	attrs := []any{
		"rule", ev.Rule, "key", j.item.Key.String(), "id", ev.ID, "attempt", ev.Attempt,
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

// event is what the handler sees of a delivery. It shares the bytes of the objects and of the payload.
func (l *Lane) event(d delivery) handler.Event {
	change := d.match.Delta
	o := change.Object
	ev := handler.Event{
		ID: change.ID(l.rule), Rule: l.rule, Event: change.Type.String(), Attempt: d.attempts, Resource: l.resource,
		Namespace: o.Namespace(), Name: o.Name(), UID: o.UID(), ResourceVersion: o.ResourceVersion(),
		Payload: d.match.Payload,
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
