package engine

import (
	"sync/atomic"

	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
)

// runningRule is a rule of the plan at work: the lane that it fills, and what it counts.
type runningRule struct {
	*plan.Rule
	preparer  *preparer        // completes its deliveries
	view      *source.Source   // the rule's own source
	others    []*source.Source // those that its expressions look into
	caches    *evaluate.Caches // what when and payload look into
	lane      *dispatch.Lane
	laneStore *laneStore // nil: nothing is kept
	failures  *failures
	matches   atomic.Uint64 // decided when the change came in; see preparer.selected
	waits     atomic.Int32  // how many holds have not been released; see hold
	knowsOwn  bool          // it recognizes its own changes, which are not delivered to it

	memory memory
}

func (r *runningRule) whereText() string {
	if r.Where == nil {
		return ""
	}
	return r.Where.Text()
}

func (r *runningRule) resource() string { return object.ResourceName(r.Source.Resource) }

// index makes an index of an expression.
func index(program *expr.Program, failures *failures) source.Index {
	return source.Index{Paths: program.Paths(), Values: func(tree any) []string {
		values, err := program.Strings(&expr.Env{Object: tree})
		failures.add(err)
		return values
	}}
}
