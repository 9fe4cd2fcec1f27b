package evaluate

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
)

// Standing is how a rule takes part in the evaluation of an informer's steps. The zero Standing is that
// of a rule whose expressions are all evaluated, for each step.
type Standing struct {
	// Deaf rules are left out of steps. They are told later what has become of the objects meanwhile.
	Deaf bool
	// Undecided rules wait for sources that they look into. Their membership is evaluated; the
	// dispatcher has when and payload evaluated later.
	Undecided bool
}

// Binding is a rule bound to what its expressions look into.
type Binding struct {
	*rule.Rule
	Resync time.Duration // of which resync rounds it is told; 0: of none
	Caches *Caches
	// KnowsOwn says that the rule recognizes changes that it made itself: its matches carry
	// [Step].Version.
	KnowsOwn bool
}

// Step is one step of an object, as an informer saw it.
type Step struct {
	Delta delta.Delta
	// Tree is Delta.Object decoded as far as the rules read it; nil: it is decoded when needed.
	Tree any
	// Resync is the interval of the resync round that the step belongs to; only rules with that
	// interval are told. 0: every rule is.
	Resync time.Duration
	// Version names the change by its resourceVersions, so that a rule can recognize its own; "" if
	// nobody asks.
	Version string
	Now     time.Time
}

// Evaluator evaluates the steps of one informer for all of its rules. It decodes an object once,
// however many rules read it, and looks only at rules that may select the step. It evaluates one step
// at a time and is not safe for concurrent use.
type Evaluator struct {
	rules    []Binding
	set      *rule.Set
	standing func(rule int) Standing
	scope    *Scope
}

// New returns an Evaluator of rules. standing says how a rule takes part; it is asked once for each
// rule that may select a step.
func New(rules []Binding, standing func(rule int) Standing, scope *Scope) *Evaluator {
	set := make([]*rule.Rule, len(rules))
	for i := range rules {
		set[i] = rules[i].Rule
	}
	return &Evaluator{rules: rules, set: rule.NewSet(set), standing: standing, scope: scope}
}

// Evaluate adds to c what the step does.
func (e *Evaluator) Evaluate(s Step, c *Change) {
	defer e.scope.Forget() // the tree is not ours for longer
	if s.Tree != nil {
		e.scope.object.Remember(s.Delta.Object, s.Tree)
	}
	e.scope.Enter(nil, s.Now)
	e.set.Each(s.Delta, e.scope, func(i int, _ *rule.Rule) {
		if s.Resync != 0 && e.rules[i].Resync != s.Resync {
			return
		}
		if standing := e.standing(i); !standing.Deaf {
			e.match(i, standing.Undecided, s, c)
		}
	})
}

// Tell adds to c what the step does for one rule, deaf or not.
func (e *Evaluator) Tell(i int, s Step, c *Change) {
	e.match(i, e.standing(i).Undecided, s, c)
}

// match adds what the rule makes of the step.
func (e *Evaluator) match(i int, undecided bool, s Step, c *Change) {
	defer contain(i, c)
	r := &e.rules[i]
	e.scope.Enter(r.Caches, s.Now)
	evaluate := r.Match
	if undecided {
		evaluate = r.Member
	}
	m, ok, err := evaluate(s.Delta, e.scope)
	if r.KnowsOwn && !r.prunes(m.Delta) {
		m.Version = s.Version
	}
	c.add(i, m, ok, err)
}

// prunes reports whether the event makes the rule delete what it applied. Such an event is delivered
// whoever made the change.
func (r *Binding) prunes(d delta.Delta) bool {
	return r.Actions != nil && r.Actions.Prune && d.Type == delta.Deleted
}

func (c *Change) add(i int, m rule.Match, ok bool, err error) {
	if err != nil {
		c.Failures = append(c.Failures, Failure{i, err})
	}
	if ok {
		c.Matches = append(c.Matches, Match{i, m})
	}
}

// contain makes a Failure of a panic. It is deferred. What was added before stays.
func contain(i int, c *Change) {
	if p := recover(); p != nil {
		c.Failures = append(c.Failures, Failure{i, fmt.Errorf("panic: %T", p)})
	}
}

// IsInside reports whether an object satisfies the rule's where.
func (e *Evaluator) IsInside(i int, o *object.Object, c *Change) (inside bool) {
	defer contain(i, c)
	r := &e.rules[i]
	if r.Where == nil {
		return true
	}
	inside, err := r.Where.Bool(&expr.Env{Object: e.scope.Tree(o)})
	if err != nil {
		c.Failures = append(c.Failures, Failure{i, err})
	}
	return inside
}

// Inside returns the names of the rules with a where that have an object inside. was answers for rules
// that have not been told yet what became of the object; ok is false for all others. It is for
// objects whose content is not kept: membership could not be told from the record.
func (e *Evaluator) Inside(o *object.Object, was func(rule int) (inside, ok bool)) (names []string) {
	defer e.scope.Forget()
	for i := range e.rules {
		inside, ok := was(i)
		if !ok {
			if e.rules[i].Where == nil {
				continue
			}
			var ignored Change // the evaluation of the step itself reports failures
			inside = e.IsInside(i, o, &ignored)
		}
		if inside {
			names = append(names, e.rules[i].Name)
		}
	}
	return names
}

// Before is an object as it was when the state was saved.
type Before struct {
	Object *object.Object // nil: there was none
	Inside bool           // the rule had it inside
}

// Compare adds to c what a rule is told of an object that it has not followed since before: Synced if
// it is inside now, Deleted if it no longer is. round distinguishes this from earlier rounds, where
// the rule had the object inside; see [delta.Delta].Round. isIdentity says that before holds an
// identity alone.
func (e *Evaluator) Compare(i int, before Before, now Step, round int64, isIdentity bool, c *Change) {
	switch {
	case e.IsInside(i, now.Delta.Object, c):
		now.Delta = delta.Delta{Type: delta.Synced, Object: now.Delta.Object}
		if before.Inside {
			now.Delta.Round = round
		}
		now.Version = ""
		e.Tell(i, now, c)
	case before.Inside:
		e.Depart(i, before.Object, now.Now, isIdentity, c)
	}
}

// Depart adds to c that an object which the rule had inside is gone, whatever its where says of it
// now.
func (e *Evaluator) Depart(i int, last *object.Object, now time.Time, isIdentity bool, c *Change) {
	defer contain(i, c)
	r := &e.rules[i]
	d := delta.Delta{Type: delta.Deleted, Object: last}
	if !r.Events.Has(d.Type) {
		return
	}
	if e.standing(i).Undecided {
		c.add(i, rule.Match{Delta: d, Undecided: true}, true, nil)
		return
	}
	e.scope.Enter(r.Caches, now)
	m, ok, err := Decide(r.Rule, d, isIdentity, e.scope)
	c.add(i, m, ok, err)
}

// Forget releases what was decoded of the object at hand.
func (e *Evaluator) Forget() { e.scope.Forget() }

// Decide evaluates when and payload of a change whose membership is known. Of a Secret that is gone
// only its identity is left (isIdentity): a when that reads more is passed over, and a payload that
// cannot be made of it is null.
func Decide(r *rule.Rule, d delta.Delta, isIdentity bool, look rule.Lookup) (rule.Match, bool, error) {
	if isIdentity && r.When != nil && !r.When.Paths().IsEmpty() {
		always := *r
		always.When = nil
		r = &always
	}
	m, ok, err := r.Decide(d, look)
	if isIdentity && err != nil {
		m, ok = rule.Match{Delta: d, Payload: json.RawMessage("null")}, true
	}
	return m, ok, err
}

// Remember takes tree for o decoded, until Forget; nil is ignored.
func (e *Evaluator) Remember(o *object.Object, tree any) {
	if tree != nil {
		e.scope.object.Remember(o, tree)
	}
}
