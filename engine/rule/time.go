package rule

import (
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
)

// A rule with For or Due is timed: its members depend on time, too. To a timed rule, an object is
// outside, waiting or inside. Only candidates wait or are inside: objects that satisfy where, and
// have a Due.
//
// The mark of an object says that it waits: since when, if the rule has For, and until when, if it
// has Due. The zero Mark says that it does not wait, so that a candidate without a mark is inside.
// Nothing else has to be remembered. Leaving and coming in make events; waiting makes none.
//
// The mark since when holds a monotonic reading in the process that made it, so that a clock that
// is set neither brings an object in early nor keeps it out. A mark until when is compared with the
// clock.

// IsTimed reports whether time decides over members.
func (r *Rule) IsTimed() bool { return r.For > 0 || r.Due != nil }

// Ready returns when an object with this mark becomes a member, if it stays a candidate.
func (r *Rule) Ready(mark time.Time) time.Time { return mark.Add(r.For) }

// Progress is what is known of an object before a step, besides the step itself.
type Progress struct {
	Mark time.Time // of the object before the step
	// IsKnown says that the rule has followed the object up to this step, which changes nothing: a
	// resync.
	IsKnown bool
	// Gap says that the object may have changed several times between the old and the new state.
	Gap bool
}

// MemberInTime does for a timed rule what [Rule.Member] does for others, and returns the mark of
// the object after the step. ok says that the rule selects the change, next holds in any case. If
// the types alone leave out a change of a member, it returns the change, with ok false.
func (r *Rule) MemberInTime(d delta.Delta, p Progress, look Lookup) (
	m Match, ok bool, next time.Time, err error,
) {
	d, ok, next, err = r.memberInTime(d, p, look)
	switch {
	case !ok:
		return Match{}, false, next, err
	case !r.Events.Has(d.Type):
		return Match{Delta: d}, false, next, err
	}
	if d.Type != delta.Updated {
		d.Old = nil
	}
	return Match{Delta: d, Undecided: true}, true, next, err
}

func (r *Rule) memberInTime(d delta.Delta, p Progress, look Lookup) (
	_ delta.Delta, ok bool, next time.Time, err error,
) {
	candidacy := func(tree any) (c candidacy) {
		c, err = r.candidacy(tree)
		return c
	}
	switch d.Type {
	case delta.Deleted: // failures on a state that the object no longer has are no errors
		was := candidacy(look.Tree(d.Object))
		if d.Old != nil {
			is := was
			if was = candidacy(look.Old(d.Old)); was.ok && !is.ok {
				d.Object = d.Old // its last state was no candidate any more
			}
		}
		return d, was.ok && p.Mark.IsZero(), time.Time{}, nil
	case delta.Updated:
		old, is := candidacy(look.Old(d.Old)), candidacy(look.Tree(d.Object))
		was := old.ok && p.Mark.IsZero()
		in, next := r.stays(old, is, p, look.Now())
		switch {
		case in && !was:
			d = delta.Delta{Type: delta.Added, Object: d.Object}
		case was && !in:
			d = delta.Delta{Type: delta.Deleted, Object: d.Old}
		}
		return d, was || in, next, err
	}
	is := candidacy(look.Tree(d.Object))
	if p.IsKnown {
		return d, is.ok && p.Mark.IsZero(), p.Mark, err
	}
	in, next := r.enters(is, look.Now())
	return d, in, next, err
}

// Elapse returns the change that the passing of time makes of a waiting object: it is added to the
// rule, or ok is false. next is its mark afterwards.
func (r *Rule) Elapse(d delta.Delta, mark time.Time, look Lookup) (
	m Match, ok bool, next time.Time, err error,
) {
	is, err := r.candidacy(look.Tree(d.Object))
	now := look.Now()
	switch {
	case !is.ok:
		return Match{}, false, time.Time{}, err
	case r.Due != nil:
		mark = is.due
	}
	if r.Ready(mark).After(now) {
		return Match{}, false, mark, err
	}
	added := Match{Delta: delta.Delta{Type: delta.Added, Object: d.Object}}
	added.Undecided = r.Events.Has(delta.Added)
	return added, added.Undecided, time.Time{}, err
}

// FirstSight returns whether an object is inside that the rule has not followed, and its mark. was
// says that the rule had it inside.
func (r *Rule) FirstSight(tree any, was bool, now time.Time) (inside bool, mark time.Time, err error) {
	is, err := r.candidacy(tree)
	if is.ok && was && r.Due == nil {
		return true, time.Time{}, err
	}
	inside, mark = r.enters(is, now)
	return inside, mark, err
}

// IsCandidate reports whether the object may be inside, with time.
func (r *Rule) IsCandidate(tree any) (bool, error) {
	c, err := r.candidacy(tree)
	return c.ok, err
}

// candidacy is what the bytes of an object say about its membership.
type candidacy struct {
	ok  bool
	due time.Time // zero if the rule has no Due
}

func (r *Rule) candidacy(tree any) (c candidacy, err error) {
	env := &expr.Env{Object: tree}
	c.ok = true
	if r.Where != nil {
		c.ok, err = r.Where.Bool(env)
		err = join(nil, "where", err)
	}
	if c.ok && r.Due != nil {
		var failure error
		c.due, c.ok, failure = r.Due.Time(env)
		err = join(err, "due", failure)
	}
	return c, err
}

// enters returns whether an object is inside that was not, and its mark.
func (r *Rule) enters(is candidacy, now time.Time) (inside bool, mark time.Time) {
	mark = now
	switch {
	case !is.ok:
		return false, time.Time{}
	case r.Due != nil:
		mark = is.due
	}
	if r.Ready(mark).After(now) {
		return false, mark
	}
	return true, time.Time{}
}

// stays returns whether an object is inside after an update, and its mark. It becomes a member of a
// rule with For only when time elapses, because more changes may be on their way.
func (r *Rule) stays(old, is candidacy, p Progress, now time.Time) (in bool, mark time.Time) {
	was := old.ok && p.Mark.IsZero()
	switch {
	case !is.ok:
		return false, time.Time{}
	case was && old.due.Equal(is.due): // the clock alone takes nothing back
		return true, time.Time{}
	case r.Due == nil && old.ok && !p.Gap:
		return false, p.Mark
	}
	return r.enters(is, now)
}
