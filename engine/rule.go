package engine

import (
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/source"
)

// runningRule is a rule of the plan at work: the lane that it fills, and what it counts.
type runningRule struct {
	*plan.Rule
	reads     *object.Paths
	view      *source.Source
	into      map[string]into  // what its expressions look into, by name
	caches    *evaluate.Caches // the same, for evaluation
	others    []*source.Source // the other sources of these and of attachInto
	lane      *dispatch.Lane
	laneStore *laneStore  // nil: nothing is kept
	reveals   bool        // its payload may have text of secrets that it looks up: of such nothing is kept
	secretly  atomic.Bool // its handler sees text of secrets, and may quote it
	failures  *failures
	matches   atomic.Uint64
	waits     atomic.Int32 // how many holds have not been released; see hold

	attachReads *object.Paths // as reads and into, of what it attaches
	attachInto  map[string]into
	actionReads *object.Paths // and of what it does
	actionInto  map[string]into
	knowsOwn    bool // it recognizes its own changes, which are not delivered to it

	memory memory
}

func (r *runningRule) whereText() string {
	if r.Where == nil {
		return ""
	}
	return r.Where.Text()
}

func (r *runningRule) resource() string { return resourceName(r.Source.Resource) }

// decide decides what was offered while the rule waited. Dispatchers call it, concurrently.
func (r *runningRule) decide(d delta.Delta) (match rule.Match, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			r.failures.add(fmt.Errorf("panic: %T", p))
			match, ok = rule.Match{}, false
		}
	}()
	decoder := object.NewDecoder(r.reads)
	identity := r.isSecret() && d.Type == delta.Deleted && isIdentity(d.Object)
	match, ok, err := evaluate.Decide(&r.Rule.Rule, d, identity, &lookup{decoder: decoder, old: decoder, rule: r})
	r.failures.add(err)
	if ok {
		r.matches.Add(1)
	}
	return match, ok
}

// isInside tells whether an object satisfies where.
func (r *runningRule) isInside(o *object.Object, look *lookup) bool {
	if r.Where == nil {
		return true
	}
	in, err := r.Where.Bool(&expr.Env{Object: look.Tree(o)})
	r.failures.add(err)
	return in
}

// remerge makes the payload of a change that was merged with what waited. Dispatchers call it, concurrently.
func (r *runningRule) remerge(d delta.Delta) (payload json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %T", p)
		}
		r.failures.add(err)
	}()
	decoder := object.NewDecoder(r.reads)
	return r.Remerge(d, &lookup{decoder: decoder, old: decoder, rule: r})
}

// index makes an index of an expression.
func index(program *expr.Program, failures *failures) source.Index {
	return source.Index{Paths: program.Paths(), Values: func(tree any) []string {
		values, err := program.Strings(&expr.Env{Object: tree})
		failures.add(err)
		return values
	}}
}
