package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
)

// runningRule is a rule with what it counts and the lane that it fills.
type runningRule struct {
	*plan.Rule
	reads    *object.Paths
	view     *source.Source
	into     map[string]into  // what its expressions look into, by name
	others   []*source.Source // the other sources of these and of attachInto
	lane     *dispatch.Lane
	reveals  bool        // its payload may have text of secrets that it looks up: of such nothing is kept
	secretly atomic.Bool // its handler sees text of secrets, and may quote it
	failures *failures
	matches  atomic.Uint64
	waits    atomic.Int32 // for how many things it does, before it decides anything

	attachReads *object.Paths // as reads and into, of what it attaches
	attachInto  map[string]into
	actionReads *object.Paths // and of what it does
	actionInto  map[string]into
	knowsOwn    bool // its own changes do not come back to it

	store    *state.Store // nil if nothing is kept
	mu       sync.Mutex
	seen     map[string]string // the rule's where when it was told of what an informer has, by the informer's id
	paused   bool
	asked    bool             // somebody has said whether it is to be
	isKnown  bool             // what was saved of it was taken up
	catching map[*record]bool // informers that have not caught up with what was saved
}

// evaluator shows the changes of one informer to those of its rules that are resynced together and look into the same sources.
// It runs in the informer's callback, one delta after the other.
type evaluator struct {
	rules  []*runningRule
	set    *rule.Set // of the same rules
	look   lookup
	record *record // nil if nothing is kept
	wait   *wait   // nil: not any more, or never
}

// listeners are the informer's evaluators. They share what is decoded of an object.
func (e *Engine) listeners(planned *plan.Informer, record *record) []source.Listener {
	type group struct {
		resync time.Duration
		into   string // the sources that all of them look into
	}
	groups := make(map[group][]*runningRule)
	for _, r := range e.rules {
		if slices.Contains(planned.Rules, r.Rule) {
			g := group{r.Resync, r.looksInto()}
			groups[g] = append(groups[g], r)
		}
	}
	old := new(object.Paths)
	for _, r := range planned.Rules {
		old.Union(r.OldPaths())
	}
	decoder, oldDecoder := object.NewDecoder(planned.View), object.NewDecoder(old)
	inOrder := func(a, b group) int { return cmp.Or(cmp.Compare(a.resync, b.resync), cmp.Compare(a.into, b.into)) }
	listeners := make([]source.Listener, 0, len(groups))
	for _, g := range slices.SortedFunc(maps.Keys(groups), inOrder) {
		evaluator := newEvaluator(groups[g], decoder, oldDecoder)
		if g.into != "" {
			e.hold(evaluator, e.informers.Informer(source.Selection(planned.Selection)))
		}
		listener := source.Listener{Resync: g.resync, OnDelta: evaluator.onDelta}
		if record != nil {
			evaluator.record, listener.OnReturn = record, evaluator.onReturn
			record.evaluators = append(record.evaluators, evaluator)
		}
		listeners = append(listeners, listener)
	}
	return listeners
}

func newEvaluator(running []*runningRule, decoder, old *object.Decoder) *evaluator {
	rules := make([]*rule.Rule, len(running))
	for i, r := range running {
		rules[i] = &r.Rule.Rule
	}
	return &evaluator{rules: running, set: rule.NewSet(rules), look: lookup{decoder: decoder, old: old}}
}

// onDelta implements source.Listener.
func (e *evaluator) onDelta(d delta.Delta, tree any) {
	if tree != nil {
		e.look.decoder.Remember(d.Object, tree)
	}
	defer e.look.forget() // tree is not ours for longer
	if d.Type == delta.Deleted && e.record.isPart(d.Object) {
		e.onEnd(d.Object)
		return
	}
	e.set.Each(d, &e.look, func(i int, _ *rule.Rule) {
		if r := e.rules[i]; !e.record.isLate(r) && !e.wait.hides(r) {
			e.look.rule = r
			r.onDelta(d, &e.look)
		}
	})
}

// onDelta offers a change to the lane if the rule selects it. Whatever is wrong with the rule or the object ends here.
func (r *runningRule) onDelta(d delta.Delta, look *lookup) {
	defer func() {
		if p := recover(); p != nil {
			r.failures.add(fmt.Errorf("panic: %T", p))
		}
	}()
	evaluate := r.Match
	if r.waits.Load() > 0 {
		evaluate = r.Member
	}
	match, ok, err := evaluate(d, look)
	if r.knowsOwn && !r.prunes(match.Delta) {
		match.Version = versionOf(d)
	}
	r.offer(match, ok, err)
}

// onDeparture offers the deletion of an object that the rule had inside, whatever its where says of it now. Of a secret nothing
// but the identity is left: a when that reads more is passed over, and a payload that cannot be made of it is null.
func (r *runningRule) onDeparture(last *object.Object, secret bool, look *lookup) {
	defer func() {
		if p := recover(); p != nil {
			r.failures.add(fmt.Errorf("panic: %T", p))
		}
	}()
	d := delta.Delta{Type: delta.Deleted, Object: last}
	switch {
	case !r.Events.Has(d.Type):
	case r.waits.Load() > 0:
		r.offer(rule.Match{Delta: d, Undecided: true}, true, nil)
	default:
		r.offer(r.decideOf(d, secret, look))
	}
}

// decideOf is Decide of a change, of which nothing but the identity may be left.
func (r *runningRule) decideOf(d delta.Delta, identity bool, look *lookup) (rule.Match, bool, error) {
	decider := r.Rule.Rule
	if identity && decider.When != nil && !decider.When.Paths().IsEmpty() {
		decider.When = nil
	}
	match, ok, err := decider.Decide(d, look)
	if identity && err != nil {
		match, ok = rule.Match{Delta: d, Payload: json.RawMessage("null")}, true
	}
	return match, ok, err
}

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
	match, ok, err := r.decideOf(d, identity, &lookup{decoder: decoder, old: decoder, rule: r})
	r.failures.add(err)
	if ok {
		r.matches.Add(1)
	}
	return match, ok
}

func (r *runningRule) offer(match rule.Match, ok bool, err error) {
	r.failures.add(err)
	if !ok {
		return
	}
	if !match.Undecided {
		r.matches.Add(1)
	}
	r.lane.Offer(match)
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
