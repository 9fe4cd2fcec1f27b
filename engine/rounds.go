package engine

import (
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rounds"
	"github.com/informd/informd/engine/timing"
)

// inRounds is a rule as package rounds sees it.
type inRounds struct{ *runningRule }

func (r inRounds) Plan() *plan.Rule        { return r.Rule }
func (r inRounds) ID() string              { return r.id }
func (r inRounds) HasEnded() bool          { return r.memory.ended() }
func (r inRounds) Holds(of delta.Key) bool { return r.lane.Holds(of) }

func (r inRounds) HasLeft() bool {
	gathered, _ := r.lane.Gathered()
	left := r.lane.Stats()
	return left.Waiting+left.Away+gathered > 0
}

// newRounds returns the rounds of an intake, whose rules are set.
func newRounds(in *intake, moments *rounds.Moments) *rounds.Rounds {
	of := rounds.Informer{
		ID: in.id, Namespace: in.planned.Namespace, Moments: moments, Now: in.clock.Now,
	}
	if in.planned.Fixed != nil {
		of.FormerID = aloneID
	}
	if in.record != nil {
		of.Notes = in.record.store
	}
	var rules []rounds.Rule
	for _, r := range in.rules {
		rules = append(rules, inRounds{r})
	}
	return rounds.New(of, rules)
}

// nextRound returns when the rule's next round begins over any informer, or the zero time.
func (r *runningRule) nextRound() (next time.Time) {
	if r.Rounds == nil {
		return time.Time{}
	}
	for _, i := range r.view.Informers() {
		next = timing.Earlier(next, i.NextRound(r.Rounds))
	}
	return next
}
