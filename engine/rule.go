package engine

import (
	"cmp"
	"sync/atomic"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/due"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/tally"
)

// runningRule is a rule of the plan at work, with the lane that it fills and its counters. It has
// many fields because everything that the engine knows of one rule meets here.
type runningRule struct {
	// The fields that each change reads come first, together: of many rules, most are in no cache
	// of the processor.
	*plan.Rule
	lane     *dispatch.Lane
	tally    *tally.Tally   // nil: the rule has no count
	trails   trails         // what became of its last changes
	matches  atomic.Uint64  // decided when the change came in; see preparer.selected
	waits    atomic.Int32   // holds that have not been released; see hold
	occasion *atomic.Uint32 // see occasions.go; shared with the rule before, if nothing differs
	knowsOwn bool           // the lane recognizes and drops the rule's own changes
	// id is the name of the rule in the state. A rule that is renamed keeps it: see former.go.
	id        string
	preparer  *preparer        // completes its deliveries
	view      *source.Source   // the rule's own source
	others    []*source.Source // sources that its expressions look into
	caches    *evaluate.Caches // caches that when and payload look into
	laneStore *laneStore       // nil if nothing is kept
	gathered  *laneStore       // what waits for the event of its group; nil if nothing does, or is kept
	failures  *failures
	pruning   *pruning  // nil unless the rule prunes
	timed     due.Total // what waits to become a member
	source    *runningSource
	to        *dispatcher

	memory *memory

	// before is the rule whose place this one is to take, with the options of its lane, until it
	// does; see succeed.
	before  *runningRule
	options dispatch.LaneOptions
}

// gathers reports whether something of the rule may wait for the event of a group.
func (r *runningRule) gathers() bool { return r.gathered != nil || r.Group != nil }

// handlerName returns the name of the handler, for reports.
func (r *runningRule) handlerName() string {
	if r.OnlyMeasures() {
		return OnlyMetrics
	}
	return cmp.Or(r.Handler, OwnActions)
}

// membership returns the text that decides over the rule's members.
func (r *runningRule) membership() string { return membershipOf(r.Rule) }

func membershipOf(r *plan.Rule) string {
	text := func(p *expr.Program) string {
		if p == nil {
			return ""
		}
		return p.Text()
	}
	return resume.Text(text(r.Where), text(r.Due))
}

func (r *runningRule) resource() string { return object.ResourceName(r.Source.Resource) }

// index returns an index whose values are those of the expression.
func index(program *expr.Program, failures *failures) source.Index {
	return source.Index{Paths: program.Paths(), Values: func(tree any) []string {
		values, err := program.Strings(&expr.Env{Object: tree})
		failures.add(err, delta.Key{})
		return values
	}}
}
