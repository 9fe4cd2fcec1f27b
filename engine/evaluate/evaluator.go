package evaluate

import (
	"errors"
	"fmt"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

// Standing is how a rule takes part in the evaluation of an informer's steps. For the zero
// Standing, the Evaluator evaluates all expressions of the rule for each step.
type Standing struct {
	// Deaf rules do not see steps. Later they learn how the objects have changed meanwhile.
	Deaf bool
	// Marks returns the mark of an object for a timed rule. It is nil for other rules.
	Marks func(of *object.Object) time.Time
	// Undecided rules wait for other sources that they read. The Evaluator evaluates only their
	// membership. The dispatcher has their when and payload evaluated later.
	Undecided bool
	// RoundsDone is the number up to which the rule does not see rounds any more. Rules that share
	// a timetable may not have begun at the same time.
	RoundsDone int64
}

// Binding is a rule with the caches that its expressions read.
type Binding struct {
	*rule.Rule
	ID     string           // the rule's name in records
	Rounds timing.Timetable // of the rounds that it sees; nil means none
	// OnlyInRounds says that it sees objects as Synced in its rounds only, and not at first sight.
	OnlyInRounds bool
	Caches       *Caches
	// KnowsOwn says that the rule recognizes its own changes. Its matches then carry
	// [Step].Version.
	KnowsOwn bool
}

// Step is one step of an object, as an informer saw it.
type Step struct {
	Delta delta.Delta
	// Tree holds the decoded fields of Delta.Object that the rules read. If it is nil, the
	// Evaluator decodes the object when needed.
	Tree any
	// Round is the timetable of the round that the step belongs to. Only rules with that timetable
	// see such a step. nil means that all rules see it.
	Round timing.Timetable
	// Version names the change by its resourceVersions, so that a rule can recognize its own
	// change. It is "" if no rule needs it.
	Version string
	// Gap says that the object may have changed several times since Delta.Old.
	Gap bool
	Now time.Time
}

// Evaluator evaluates the steps of one informer for all of its rules. It decodes an object once,
// however many rules read it, and looks only at rules that may select the step. It evaluates one
// step at a time and is not safe for concurrent use.
type Evaluator struct {
	rules    []Binding
	set      *rule.Set
	standing func(rule int) Standing
	scope    *Scope
}

// New returns an Evaluator of rules. standing returns how a rule takes part. The Evaluator calls it
// once for each rule that may select a step.
func New(rules []Binding, standing func(rule int) Standing, scope *Scope) *Evaluator {
	set := make([]*rule.Rule, len(rules))
	for i := range rules {
		set[i] = rules[i].Rule
	}
	return &Evaluator{rules: rules, set: rule.NewSet(set), standing: standing, scope: scope}
}

// Evaluate adds to c what the step does.
func (e *Evaluator) Evaluate(s Step, c *Change) {
	defer e.scope.Forget() // the informer reuses the tree afterwards
	if s.Tree != nil {
		e.scope.object.Remember(s.Delta.Object, s.Tree)
	}
	e.scope.Enter(nil, s.Now)
	e.set.Each(s.Delta, e.scope, func(i int, _ *rule.Rule) {
		if s.Round != nil && e.rules[i].Rounds != s.Round {
			return
		}
		standing := e.standing(i)
		if s.Round != nil && s.Delta.Round <= standing.RoundsDone {
			return
		}
		if !standing.Deaf {
			e.match(i, standing, s, c)
		}
	})
}

// match adds to c what the step does for one rule.
func (e *Evaluator) match(i int, standing Standing, s Step, c *Change) {
	defer contain(i, c)
	r := &e.rules[i]
	e.scope.Enter(r.Caches, s.Now)
	if standing.Marks != nil {
		e.matchInTime(i, standing, s, c)
		return
	}
	if !r.hears(s) {
		c.decline(i, s.Delta, ByRounds)
		return
	}
	m, ok, err := r.Member(s.Delta, e.scope)
	version := s.Version
	if r.Prunes(m.Delta) {
		version = ""
	}
	e.decide(i, standing, m, ok, err, version, c)
}

// hears reports whether the rule sees the step at all, besides its membership.
func (r *Binding) hears(s Step) bool {
	return !r.OnlyInRounds || s.Delta.Type != delta.Synced || s.Round != nil
}

// add adds to c what a rule makes of a step.
func (e *Evaluator) add(i int, m rule.Match, ok bool, err error, c *Change) {
	if of := e.rules[i].Group; ok && of != nil {
		var failure error
		m.Group, failure = of.Of(m.Delta, e.scope)
		err = errors.Join(err, failure)
	}
	if err != nil {
		c.Failures = append(c.Failures, Failure{i, err})
	}
	if ok {
		c.Matches = append(c.Matches, Match{Rule: i, Match: m})
	}
}

// contain turns a panic into a Failure. Call it with defer. It keeps what was added to c before.
func contain(i int, c *Change) {
	if p := recover(); p != nil {
		c.Failures = append(c.Failures, Failure{i, fmt.Errorf("panic: %T", p)})
	}
}

// IsInside reports whether a rule has an object inside: whether it satisfies the rule's where, and
// does not wait.
func (e *Evaluator) IsInside(i int, o *object.Object, c *Change) (inside bool) {
	defer contain(i, c)
	r := &e.rules[i]
	if standing := e.standing(i); standing.Marks != nil {
		inside, err := r.IsCandidate(e.scope.Tree(o))
		if err != nil {
			c.Failures = append(c.Failures, Failure{i, err})
		}
		return inside && c.mark(i, o, standing).IsZero()
	}
	if r.Where == nil {
		return true
	}
	inside, err := r.Where.Bool(&expr.Env{Object: e.scope.Tree(o)})
	if err != nil {
		c.Failures = append(c.Failures, Failure{i, err})
	}
	return inside
}

// SetID changes the ID of a rule, before any step.
func (e *Evaluator) SetID(i int, id string) { e.rules[i].ID = id }

// Inside returns the IDs of the rules with a where that have an object inside. It is for objects
// whose content is not kept, because their record cannot answer the question later. c is the change
// that is about to be committed. was answers for rules that have not seen the object's latest
// change; ok is false for all other rules.
func (e *Evaluator) Inside(
	o *object.Object, c *Change, was func(rule int) (inside, ok bool),
) (names []string) {
	defer e.scope.Forget()
	for i := range e.rules {
		inside, ok := was(i)
		if !ok {
			if e.rules[i].Where == nil && !e.rules[i].IsTimed() {
				continue
			}
			ignored := Change{Waits: c.Waits} // the evaluation of the step itself reports failures
			inside = e.IsInside(i, o, &ignored)
		}
		if inside {
			names = append(names, e.rules[i].ID)
		}
	}
	return names
}

// Before is an object as a rule saw it last.
type Before struct {
	Object *object.Object // nil if there was none
	Inside bool           // the rule had it inside
}

// Compare adds to c what a rule must learn of an object that it has not followed since before. That
// is Synced if the object is inside now, and Deleted if it was inside and no longer is. If it was
// inside before, the Round of this Synced is [delta.Known]. isIdentity says that before holds only
// an identity. An object that was another one of the same name is gone.
func (e *Evaluator) Compare(
	i int, before Before, now Step, isIdentity bool, c *Change,
) {
	if before.Object != nil && before.Object.UID() != now.Delta.Object.UID() {
		if before.Inside {
			e.Depart(i, before.Object, now.Now, isIdentity, c)
		}
		before = Before{}
	}
	switch {
	case e.atFirstSight(i, before.Inside, now, c):
		now.Delta = delta.Delta{Type: delta.Synced, Object: now.Delta.Object}
		if before.Inside {
			now.Delta.Round = delta.Known
		}
		now.Version = ""
		e.tellInside(i, now, c)
	case before.Inside:
		e.Depart(i, before.Object, now.Now, isIdentity, c)
	}
}

// Gone adds to c what a rule must learn of an object that it has not followed since before, and
// that is gone: the step has its last state.
func (e *Evaluator) Gone(i int, before Before, s Step, isIdentity bool, c *Change) {
	last := s.Delta.Object
	e.Unwait(i, last, c)
	switch {
	case !before.Inside:
	case before.Object.UID() != last.UID():
		e.Depart(i, before.Object, s.Now, isIdentity, c)
	default:
		e.Depart(i, last, s.Now, false, c)
	}
}

// Depart adds to c that an object which the rule had inside is gone, whatever its where returns for
// it now.
func (e *Evaluator) Depart(i int, last *object.Object, now time.Time, isIdentity bool, c *Change) {
	defer contain(i, c)
	r := &e.rules[i]
	d := delta.Delta{Type: delta.Deleted, Object: last}
	if !r.Events.Has(d.Type) {
		c.decline(i, d, ByEvents)
		return
	}
	if e.standing(i).Undecided {
		e.add(i, rule.Match{Delta: d, Undecided: true}, true, nil, c)
		return
	}
	e.scope.Enter(r.Caches, now)
	m, ok, err := Decide(r.Rule, d, isIdentity, e.scope)
	if m.Undecided { // whoever decides it reports the failure
		err = nil
	}
	if !ok {
		c.decline(i, d, whyNot(err))
	}
	e.add(i, m, ok, err, c)
}

// Again adds to c what one rule makes of an object that it follows, as in a round of its own. now
// has the round's number in its Delta.
func (e *Evaluator) Again(i int, now Step, c *Change) {
	if standing := e.standing(i); !standing.Deaf {
		if now.Round = e.rules[i].Rounds; now.Round == nil {
			now.Round = asked{}
		}
		e.match(i, standing, now, c)
	}
}

// asked is the timetable of rounds that somebody asks for.
type asked struct{ timing.Timetable }

// Forget releases the decoded forms of the current object.
func (e *Evaluator) Forget() { e.scope.Forget() }

// Decide evaluates when and payload of a change whose membership is known. isIdentity says that
// only the identity of the object is left, as for a Secret that is gone. Decide then skips a when
// that reads more, and counts by the object.
func Decide(
	r *rule.Rule, d delta.Delta, isIdentity bool, look rule.Lookup,
) (rule.Match, bool, error) {
	if !isIdentity {
		return r.Decide(d, look)
	}
	known := *r
	known.Count = r.Count.PerObject()
	if r.When != nil && len(r.When.Paths().Beyond(object.Identity())) > 0 {
		known.When = nil
	}
	return known.Decide(d, look)
}

// Remember uses tree as the decoded form of o until Forget. It ignores a nil tree.
func (e *Evaluator) Remember(o *object.Object, tree any) {
	if tree != nil {
		e.scope.object.Remember(o, tree)
	}
}
