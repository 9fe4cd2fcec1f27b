package evaluate

import (
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
)

// Change is everything that one step of an object does to the daemon. It is data: committing it
// needs no further evaluation. It names rules by their position in the [Evaluator]. The zero Change
// does nothing.
type Change struct {
	// Matches are the events that rules select, in the order of the rules.
	Matches []Match
	// Failures are the expressions that failed. The rest of the Change is valid nevertheless.
	Failures []Failure
	// Declined are the changes that rules have looked at and do not select. Those of objects that
	// where leaves out are not among them: nobody asks why.
	Declined []Declined
	// Waits are the new marks of objects for timed rules.
	Waits []Wait
	// Measured is what the object contributes to gauges.
	Measured Measured
	// Put is the object to record as known. Inside is what is recorded beside it of rules: see
	// [Evaluator.Inside] and [Evaluator.Mark].
	Put    *object.Object
	Inside []string
	// Gone is the object to forget.
	Gone *object.Object
	// Moved says that Position is the point from which another run can go on: a resourceVersion, or
	// "" if that run must list.
	Moved    bool
	Position string
}

// Match is a match of one rule.
type Match struct {
	Rule int
	rule.Match
	// IsOwn says that the rule made the change itself and does not receive it. Whoever commits the
	// Change finds that out.
	IsOwn bool
}

// Wait is what a timed rule remembers of an object. See [rule.Rule.IsTimed].
type Wait struct {
	Rule int
	Of   *object.Object
	Mark time.Time // zero: it does not wait, or no more
}

// Declined is a change that a rule does not select.
type Declined struct {
	Rule  int
	Why   Why
	Delta delta.Delta
}

// Why says which stage has left out a change.
type Why uint8

// The stages.
const (
	ByEvents Why = iota // the rule's events leave out the type of the change
	ByWhen              // when is false
	ByRounds            // the rule sees objects in its rounds only
	ByError             // where, due or when fails
	ByTime              // the object waits to become a member
)

// Failure is an expression of a rule that failed. Err never holds contents of objects.
type Failure struct {
	Rule int
	Err  error
}

// Reset empties the change and keeps its memory for the next one.
func (c *Change) Reset() {
	clear(c.Matches)
	clear(c.Waits)
	clear(c.Declined)
	clear(c.Failures)
	clear(c.Measured.Samples)
	*c = Change{
		Matches: c.Matches[:0], Waits: c.Waits[:0], Failures: c.Failures[:0],
		Declined: c.Declined[:0], Measured: Measured{Samples: c.Measured.Samples[:0]},
	}
}

// Record sets how the record of the informer changes: it puts the delta's object, or forgets it if
// it is deleted.
func (c *Change) Record(d delta.Delta) {
	if d.Type == delta.Deleted {
		c.Gone = d.Object
		return
	}
	c.Put = d.Object
}

// IsEmpty reports whether there is nothing to commit.
func (c *Change) IsEmpty() bool {
	return len(c.Matches) == 0 && len(c.Waits) == 0 && c.Put == nil && c.Gone == nil && !c.Moved
}
