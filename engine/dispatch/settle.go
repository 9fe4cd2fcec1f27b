package dispatch

import (
	"context"
	"errors"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// settle ends the attempt f, which the handler answered with err.
func (d *Dispatcher) settle(run context.Context, f *flight, err error) {
	if errors.Is(err, ErrUnwritten) || errors.Is(err, ErrNotLeading) {
		d.halt(run, err)
	}
	o := d.outcome(f, err, run.Err() != nil)
	d.commit(f, &o)
	d.report(f, &o)
	d.land(f.job)
}

// outcome decides what becomes of f. isEnding reports that Run is ending, which may be the only
// reason for an error. Own actions may have been stopped for other reasons.
func (d *Dispatcher) outcome(f *flight, err error, isEnding bool) outcome {
	o := outcome{at: d.opts.Clock.Now(), delivery: f.item.Value}
	isStopped := err != nil && isEnding || errors.Is(err, ErrStopped)
	if isStopped && !errors.Is(err, handler.ErrReject) {
		o.result = Cancelled
		o.delivery.Attempts--
		return o
	}
	retry := d.to.Retry
	if f.item.Value.Answer.IsAcknowledged() {
		retry = d.ownRetry
	}
	o.delivery, o.verdict = retry.judge(o.delivery, err)
	if o.result == Done && f.does == trail.Idle && d.to.Handler == nil {
		o.result = Idle
	}
	if o.result == Lost { // events that hung go after those that the handler had just got
		o.after = max(o.after, min(o.at.Sub(f.began), maxHungFor))
	}
	// a rule that acts alone makes its actions again
	if o.result != Retried || f.lane.opts.ActsItself && d.to.Handler == nil {
		o.delivery.Answer = nil
	}
	if o.result == Rejected || o.result == Dead {
		o.letter = d.letter(f, &o)
	}
	return o
}

// letter makes the dead letter of f. Only letter decides whether it is confidential.
func (d *Dispatcher) letter(f *flight, o *outcome) *delivery.Letter {
	ev := &f.event
	if f.lane.isConfidential() && !o.plain && o.short != "" {
		o.reason, o.plain = o.short, true
	}
	return &delivery.Letter{
		ID: ev.ID, Rule: f.lane.newest().naming.rule, Handler: d.to.Name,
		Resource: ev.Resource, Key: f.item.Key,
		Reason: bounded(o.reason, maxReason), Confidential: f.lane.isConfidential(), Plain: o.plain,
		Attempts: ev.Attempt, Since: f.item.Since, Died: o.at,
		Delta: f.item.Value.Delta, Payload: ev.Payload,
		Items: f.item.Value.Items, IsGroup: f.lane.traits.isGroup(&f.item.Value),
	}
}

// commit applies the outcome as one change of the journal. It evaluates and logs nothing.
func (d *Dispatcher) commit(f *flight, o *outcome) {
	if !o.result.repeats() {
		ending(f.lane, f.item.Key)
	}
	d.opts.Journal.Begin()
	defer d.opts.Journal.End()
	if o.letter != nil {
		if o.evicted, o.unkept = d.dead.Add(*o.letter); o.unkept != nil {
			o.result, o.after = Retried, d.to.Retry.MaxBackoff
		}
		if now := f.lane.newest().naming.rule; now != o.letter.Rule { // it was renamed just before
			d.dead.Rename(o.letter.Rule, now)
		}
	}
	q, key := f.lane.queue, f.item.Key
	if o.result.isDone() && !f.item.Redriven { // a letter itself may be older than the others
		d.dead.Delivered(f.lane.newest().naming.rule, key, o.at)
	}
	switch {
	case !o.result.repeats():
		f.lane.shared.ended.Add(1)
		f.lane.done(key)
	case o.delivery.Refusals >= renewAfter: // merges it with what came after it, under Every too
		q.Shorten(key, o.delivery, o.after)
	case o.yields && !f.lane.opts.Every:
		q.Yield(key, o.delivery, o.after, 0)
	default:
		q.Retry(key, o.delivery, o.after)
	}
}

// verdicts are the results as a lane's Attempts remembers them.
var verdicts = map[Result]trail.Verdict{
	Idle: trail.Idle, Retried: trail.Retried, Lost: trail.Lost,
	Rejected: trail.Rejected, Dead: trail.Dead, Cancelled: trail.Cancelled,
}

// verdict returns what the lane's Attempts remembers of the outcome.
func (d *Dispatcher) verdict(f *flight, o *outcome) trail.Verdict {
	switch {
	case o.result == Done:
		return f.did()
	case o.result == Rejected && !f.isMade:
		return trail.Unmade
	}
	return verdicts[o.result]
}

// report remembers and logs the outcome, and notifies the observer.
func (d *Dispatcher) report(f *flight, o *outcome) {
	isRepeated := o.result.repeats() && o.result != Cancelled
	var failed Failure
	if isRepeated {
		failed = Failure{
			Key: f.item.Key, Attempt: f.event.Attempt, At: o.at,
			Reason: f.lane.reports.reasonOf(o), Confidential: f.lane.isConfidential() && !o.plain,
		}
	}
	f.noteWith(d.verdict(f, o), o.at, failed.Reason, failed.Confidential)
	if o.result.isDone() {
		f.lane.shared.acted.add(f.did())
	}
	if o.letter != nil {
		f.lane.reports.reportLetter(o)
		if o.unkept == nil {
			f.lane.reports.reportEvicted(d.opts.Logger, o.evicted, o.at)
		}
	}
	// The first refusals of actions as stale are nobody's failure: the object has just changed.
	isStale := o.result == Retried && o.delivery.Refusals > 0 && o.delivery.Refusals <= renewAfter
	if isRepeated && !isStale {
		f.lane.reports.reportFailure(failed, f.event.ID, o.after)
	}
	if o.result.isDone() {
		f.reportDone(o.at)
	}
	if d.opts.Attempted != nil {
		d.opts.Attempted(Attempt{
			Rule: f.lane.naming.rule, Handler: d.to.Name, Result: o.result,
			Duration: o.at.Sub(f.began), Latency: o.at.Sub(f.item.Since),
		})
	}
}
