// Package rounds keeps where rules with a schedule or a resync are in their rounds: which one was
// the last, for the next run, and which missed moments wait for earlier ones. It is pure: it knows
// no clock and no store.
//
// [Rounds] are those over the objects of one informer. [Moments] are shared by all informers.
package rounds

import (
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/state/records"
)

// Rule is a rule at work. Equal values are the same rule.
type Rule interface {
	Plan() *plan.Rule
	// ID returns the name by which the state finds what it has of the rule.
	ID() string
	// HasEnded reports whether the rule is gone, so that nothing is recorded of it.
	HasEnded() bool
	// HasLeft reports whether deliveries of the rule wait, or are in flight.
	HasLeft() bool
	// Holds reports whether a delivery about an object waits, or is in flight.
	Holds(of delta.Key) bool
}

// Notes record what the next run has to know. *state.Store implements it.
type Notes interface {
	// Begin begins a cut, and End ends it.
	Begin()
	End()
	// PutNote and DeleteNote are called between them.
	PutNote(records.Note)
	DeleteNote(rule, name string)
}
