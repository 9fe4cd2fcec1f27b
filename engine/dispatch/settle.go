package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/plugins/handler"
)

// outcome is what becomes of a delivery after an attempt. It is decided before the journal is opened, carried out in one
// step, and reported after that.
type outcome struct {
	verdict
	delivery delivery.Delivery // as it goes back, if the attempt is repeated
	letter   *Letter           // nil unless the event is dead
	at       time.Time         // when the attempt ended

	unkept  error    // why the letter was not kept: the event is repeated rather than lost
	evicted []Letter // for which the letter left no room
}

// settle ends f, which was answered with err.
func (d *Dispatcher) settle(run context.Context, f *flight, err error) {
	o := d.outcome(f, err, run.Err() != nil)
	d.commit(f, &o)
	d.report(f, &o)
	d.land(f.job)
}

// outcome decides what becomes of f. isEnding says that Run is to return: an error may have no other reason then.
func (d *Dispatcher) outcome(f *flight, err error, isEnding bool) outcome {
	o := outcome{at: d.opts.Clock.Now(), delivery: f.item.Value}
	if isEnding && err != nil && !errors.Is(err, handler.ErrReject) {
		o.result = Cancelled
		o.delivery.Attempts--
		return o
	}
	o.delivery, o.verdict = d.to.Retry.judge(o.delivery, err)
	if o.result != Retried || f.lane.opts.ActsItself {
		o.delivery.Answer = nil
	}
	if o.result == Rejected || o.result == Dead {
		o.letter = d.letter(f, &o)
	}
	return o
}

// letter makes the dead letter of f. Here, and nowhere else, it is decided whether the letter is confidential.
func (d *Dispatcher) letter(f *flight, o *outcome) *Letter {
	ev := &f.event
	return &Letter{
		ID: ev.ID, Rule: ev.Rule, Handler: d.to.Name, Resource: ev.Resource, Key: f.item.Key,
		Reason: bounded(o.reason, maxReason), Confidential: f.lane.isConfidential(),
		Attempts: ev.Attempt, Since: f.item.Since, Died: o.at, Delta: f.item.Value.Delta, Payload: ev.Payload,
	}
}

// commit carries the outcome out, as one change of the journal. Nothing is evaluated or logged meanwhile.
func (d *Dispatcher) commit(f *flight, o *outcome) {
	d.opts.Journal.Begin()
	defer d.opts.Journal.End()
	if o.letter != nil {
		if o.evicted, o.unkept = d.dead.Add(*o.letter); o.unkept != nil {
			o.verdict = verdict{result: Retried, reason: o.reason, after: d.to.Retry.MaxBackoff}
		}
	}
	queue, key := f.lane.queue, f.item.Key
	switch {
	case !o.result.repeats():
		queue.Done(key)
	case o.delivery.Refusals >= renewAfter: // it is merged with what came after it, under Every too
		queue.Shorten(key, o.delivery, o.after)
	default:
		queue.Retry(key, o.delivery, o.after)
	}
}

// report logs what was carried out, and tells the observer.
func (d *Dispatcher) report(f *flight, o *outcome) {
	if o.letter != nil {
		d.reportLetter(f, o)
	}
	isStale := o.delivery.Refusals > 0 && o.delivery.Refusals <= renewAfter // which is nobody's failure
	if o.result.repeats() && o.result != Cancelled && !isStale {
		f.lane.reportFailure(f, o)
	}
	if d.opts.Attempted != nil {
		d.opts.Attempted(Attempt{
			Rule: f.lane.rule, Handler: d.to.Name, Result: o.result,
			Duration: o.at.Sub(f.began), Latency: o.at.Sub(f.item.Since),
		})
	}
}
