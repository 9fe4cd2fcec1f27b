package evaluate

import (
	"errors"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
)

// matchInTime is match for a timed rule.
func (e *Evaluator) matchInTime(i int, standing Standing, s Step, c *Change) {
	r := &e.rules[i]
	mark := standing.Marks(s.Delta.Object)
	p := rule.Progress{Mark: mark, IsKnown: s.Round != nil, Gap: s.Gap}
	m, ok, next, err := r.MemberInTime(s.Delta, p, e.scope)
	c.wait(i, s.Delta.Object, mark, next)
	version := s.Version
	if r.Prunes(m.Delta) {
		version = ""
	}
	switch {
	case ok && m.Delta.Type == delta.Synced && !r.hears(s):
		c.decline(i, m.Delta, ByRounds)
		ok, m = false, rule.Match{}
	case !ok && !next.IsZero():
		c.decline(i, s.Delta, ByTime)
	}
	e.decide(i, standing, m, ok, err, version, c)
}

// whyNot returns why when does not select a change, if it has failed with err.
func whyNot(err error) Why {
	if err != nil {
		return ByError
	}
	return ByWhen
}

// decline notes that a rule does not select a change.
func (c *Change) decline(i int, d delta.Delta, by Why) {
	c.Declined = append(c.Declined, Declined{i, by, d})
}

// decide adds to c a change of membership, with when and payload unless the rule is undecided.
func (e *Evaluator) decide(
	i int, standing Standing, m rule.Match, ok bool, err error, version string, c *Change,
) {
	r := &e.rules[i]
	switch d := m.Delta; {
	case !ok && d.Object != nil:
		c.decline(i, d, ByEvents)
	case ok && !standing.Undecided:
		var failure error
		m, ok, failure = r.Decide(d, e.scope)
		if !m.Undecided { // whoever decides it reports the failure
			err = errors.Join(err, failure)
		}
		if !ok {
			c.decline(i, d, whyNot(failure))
		}
	}
	if r.KnowsOwn {
		m.Version = version
	}
	e.add(i, m, ok, err, c)
}

// Elapse adds to c what the passing of time does for a timed rule and an object that waits.
func (e *Evaluator) Elapse(i int, o *object.Object, now time.Time, c *Change) {
	defer e.scope.Forget()
	defer contain(i, c)
	standing := e.standing(i)
	mark := standing.Marks(o)
	if mark.IsZero() {
		return
	}
	e.scope.Enter(e.rules[i].Caches, now)
	d := delta.Delta{Type: delta.Synced, Object: o}
	m, ok, next, err := e.rules[i].Elapse(d, mark, e.scope)
	c.wait(i, o, mark, next)
	e.decide(i, standing, m, ok, err, "", c)
}

// wait records the mark of an object, unless it neither waited nor waits. A mark that stays is
// recorded too, because it belongs to the object's present state.
func (c *Change) wait(i int, of *object.Object, before, mark time.Time) {
	if !before.IsZero() || !mark.IsZero() {
		c.Waits = append(c.Waits, Wait{i, of, mark})
	}
}

// mark returns the mark of an object once c is committed.
func (c *Change) mark(i int, o *object.Object, standing Standing) time.Time {
	for n := len(c.Waits) - 1; n >= 0; n-- {
		if w := c.Waits[n]; w.Rule == i && w.Of.Key() == o.Key() {
			return w.Mark
		}
	}
	return standing.Marks(o)
}

// Mark returns the mark of an object for a timed rule once c is committed.
func (e *Evaluator) Mark(i int, o *object.Object, c *Change) time.Time {
	return c.mark(i, o, e.standing(i))
}

// atFirstSight reports whether a rule has an object inside that it has not followed. was says that
// it had the object inside. For a timed rule, it adds the mark of the object to c.
func (e *Evaluator) atFirstSight(i int, was bool, s Step, c *Change) (inside bool) {
	standing := e.standing(i)
	if standing.Marks == nil {
		return e.IsInside(i, s.Delta.Object, c)
	}
	defer contain(i, c)
	o := s.Delta.Object
	inside, next, err := e.rules[i].FirstSight(e.scope.Tree(o), was, s.Now)
	if err != nil {
		c.Failures = append(c.Failures, Failure{i, err})
	}
	c.wait(i, o, standing.Marks(o), next)
	return inside
}

// tellInside adds to c what the step does for a rule that has the object inside.
func (e *Evaluator) tellInside(i int, s Step, c *Change) {
	standing := e.standing(i)
	if standing.Marks == nil {
		e.match(i, standing, s, c)
		return
	}
	defer contain(i, c)
	e.scope.Enter(e.rules[i].Caches, s.Now)
	if !e.rules[i].hears(s) {
		c.decline(i, s.Delta, ByRounds)
		return
	}
	m := rule.Match{Delta: s.Delta, Undecided: true}
	ok := e.rules[i].Events.Has(s.Delta.Type)
	e.decide(i, standing, m, ok, nil, "", c)
}

// Unwait adds to c that an object that is gone no longer waits for a rule.
func (e *Evaluator) Unwait(i int, gone *object.Object, c *Change) {
	if marks := e.standing(i).Marks; marks != nil {
		c.wait(i, gone, marks(gone), time.Time{})
	}
}
