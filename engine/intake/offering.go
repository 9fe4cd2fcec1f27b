package intake

import (
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// offering offers the matches of one informer's changes to the lanes of its rules, and reports what
// the rules made of the changes. The informer's lock guards it.
type offering struct {
	rules    []*live.Rule
	clock    clock.PassiveClock
	dead     *dispatch.LetterBox
	knowsOwn bool      // one of the rules recognizes its own changes
	now      time.Time // of the step that is evaluated and committed
}

// add adds a rule.
func (f *offering) add(r *live.Rule) {
	f.rules = append(f.rules, r)
	f.knowsOwn = f.knowsOwn || r.Own != nil
}

// begin begins a step, and returns its time.
func (f *offering) begin() time.Time {
	f.now = f.clock.Now()
	return f.now
}

// stamp gives the deltas of a change their occasions.
func (f *offering) stamp(c *evaluate.Change) {
	for i := range c.Matches {
		f.rules[c.Matches[i].Rule].Stamp(&c.Matches[i].Delta)
	}
	for i := range c.Declined {
		f.rules[c.Declined[i].Rule].Stamp(&c.Declined[i].Delta)
	}
}

// offer offers a match to its lane, if it goes on there. If that panics, which only a defect of
// informd can cause, the match becomes a dead letter, and counts as a failure of the rule. The
// matches of other rules go on.
func (f *offering) offer(m *evaluate.Match, c *evaluate.Change) {
	defer func() {
		if p := recover(); p != nil {
			letter := f.unqueued(m)
			evicted, _ := f.dead.Add(letter) // which never fails
			err := &live.UnqueuedError{What: p, Stack: debug.Stack(), ID: letter.ID, Evicted: evicted}
			c.Failures = append(c.Failures, evaluate.Failure{Rule: m.Rule, Err: err})
		}
	}()
	r := f.rules[m.Rule]
	switch goesOn := f.count(m); {
	case m.Undecided:
		r.Trails.Changes.Add(m.Delta, trail.Undecided, f.now)
		r.Lane.Offer(m.Match)
	case !goesOn:
		r.NoteMatch(m.Delta, trail.ByCount)
	case r.OnlyMeasures():
		r.NoteMatch(m.Delta, trail.Selected)
	default:
		m.IsOwn = r.Lane.Offer(m.Match) // which calls Matched
	}
}

// count counts a match, and reports whether it goes on to its lane. A match that counts, there or
// in a metric, and that the rule may have made itself becomes undecided: it counts once that has
// turned out.
func (f *offering) count(m *evaluate.Match) (goesOn bool) {
	r := f.rules[m.Rule]
	if m.Undecided || m.Count == nil && m.Samples == nil {
		return true
	}
	if m.Version != "" {
		switch isOwn, mayBe := r.Lane.Owns(m.Match); {
		case isOwn:
			return true // the lane drops it
		case mayBe:
			m.Undecided, m.Payload = true, nil
			return true
		}
	}
	return m.Count == nil || r.Tally.Add(m.Delta, *m.Count, f.clock.Now())
}

// unqueued returns the dead letter of a match that could not be queued.
func (f *offering) unqueued(m *evaluate.Match) delivery.Letter {
	r, now := f.rules[m.Rule], f.clock.Now()
	return delivery.Letter{
		ID: m.Delta.ID(r.Name), Rule: r.Name, Handler: r.HandlerName(),
		Resource: handler.Resource(r.Source.Resource), Key: m.Delta.Key(),
		Reason:       "informd panicked while it queued the event: please report this",
		Confidential: r.Preparer.IsConfidential(), Plain: true,
		Since: now, Died: now, Delta: m.Delta, Payload: m.Payload,
	}
}

// declined are the verdicts on changes that a rule does not select.
var declined = [...]trail.Verdict{
	evaluate.ByEvents: trail.ByEvents, evaluate.ByWhen: trail.ByWhen,
	evaluate.ByRounds: trail.ByRounds, evaluate.ByError: trail.Failed,
	evaluate.ByTime: trail.Waits,
}

// report remembers and counts what rules made of the change that o causes, and logs its failures.
func (f *offering) report(c *evaluate.Change, o *object.Object) {
	for i := range c.Declined {
		d := &c.Declined[i]
		f.rules[d.Rule].Trails.Changes.Add(d.Delta, declined[d.Why], f.now)
	}
	for i := range c.Matches {
		m := &c.Matches[i]
		r := f.rules[m.Rule]
		if !m.Undecided && !m.IsOwn {
			live.AddSamples(r.Preparer.Counters, m.Samples, m.Delta.Key())
		}
		r.Failures.Add(r.Tally.Full(), delta.Key{})
	}
	for _, failed := range c.Failures {
		failures := f.rules[failed.Rule].Failures
		isUndecided := func(m evaluate.Match) bool { return m.Rule == failed.Rule && m.Undecided }
		if slices.ContainsFunc(c.Matches, isUndecided) { // its delivery evaluates it again
			failures.AddSeen(failed.Err, o)
		} else {
			failures.AddOn(failed.Err, o)
		}
	}
}
