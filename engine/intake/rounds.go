package intake

import (
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/rounds"
)

// inRounds is a rule as package rounds sees it.
type inRounds struct{ *live.Rule }

func (r inRounds) Plan() *plan.Rule        { return r.Rule.Rule }
func (r inRounds) ID() string              { return r.Rule.ID }
func (r inRounds) HasEnded() bool          { return r.Memory.Ended() }
func (r inRounds) Holds(of delta.Key) bool { return r.Lane.Holds(of) }

func (r inRounds) HasLeft() bool { return r.Undelivered() > 0 }

// newRounds returns the rounds of an informer, whose rules are set.
func newRounds(planned *plan.Informer, j *judge) *rounds.Rounds {
	of := rounds.Informer{
		ID: j.ID, Namespace: planned.Namespace, Moments: j.options.Moments, Now: j.options.Clock.Now,
	}
	if planned.Fixed != nil {
		of.FormerID = func(rule string) string { // the informer of a rule without a source
			return resume.InformerID(object.Selection{FieldSelector: plan.AloneSelector + rule}, true)
		}
	}
	if j.sinks.record != nil {
		of.Notes = j.sinks.record.store
	}
	var rules []rounds.Rule
	for _, r := range j.Rules {
		rules = append(rules, inRounds{r})
	}
	return rounds.New(of, rules)
}
