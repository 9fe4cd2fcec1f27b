package engine

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/timing"
)

// catchUp has rules of an intake catch up, an object at a time: see package follow. The informer
// gives it turns between the steps, and while it lasts, the other rules see these steps as always.
type catchUp struct {
	*follow.CatchUp
	// resumes says that it ends what the intake needs of the cut that it resumes from.
	resumes bool
	// departs says that its rule follows the informer, and only learns what became of the objects that it
	// had inside in informers that it has left.
	departs bool
	held    []*live.Rule // until the informer has settled
	doubts  bool         // the lanes of its rules doubt what they hold until it has ended
	isNow   bool         // the current step is the turn of its object
}

// beginCatchUp has rules catch up. known are the objects that the informer has, and knew the keys
// of others that the rules know. If this run ends in between, the next one must know that they have
// learned a part: beginCatchUp records that now. It cannot do so for rules that know parts of
// objects in a cut, so these catch up at once.
func (in *intake) beginCatchUp(
	pupils []follow.Pupil, known iter.Seq[*object.Object], knew []string, resumes bool,
) {
	if len(pupils) == 0 {
		return
	}
	keys := func(yield func(string) bool) {
		for o := range known {
			if !yield(o.Key()) {
				return
			}
		}
	}
	u := &catchUp{CatchUp: follow.New(pupils, keys), resumes: resumes, doubts: resumes}
	u.Add(inOrder(knew, in.isStepped))
	for _, p := range pupils {
		u.Add(inOrder(keysOf(in.learns.left[p.Rule]), in.isStepped))
	}
	in.learns.catchUps = append(in.learns.catchUps, u)
	isAtOnce := in.isStepped || resumes && in.learns.resuming.holds
	end := in.record.begin()
	for _, p := range pupils {
		in.learns.left[p.Rule].begin()
		if !isAtOnce {
			in.rules[p.Rule].Memory.CatchUp(in.id)
		}
	}
	end()
	if isAtOnce {
		in.catchUpAll(known, u)
		return
	}
	in.informer.Wake()
}

// beginFollowing has changed rules follow the informer with which the objects of the cut were saved,
// before any step. They catch up with what they had inside then.
func (in *intake) beginFollowing(changed []follow.Pupil, objects []*object.Object) {
	if len(changed) == 0 {
		return
	}
	keys := func(yield func(string) bool) {
		for _, o := range objects {
			if !yield(o.Key()) {
				return
			}
		}
	}
	u := &catchUp{CatchUp: follow.New(changed, keys), doubts: true}
	in.learns.catchUps = append(in.learns.catchUps, u) // restore records that
	for _, p := range changed {
		u.held = append(u.held, in.rules[p.Rule])
		in.rules[p.Rule].Hold()
	}
}

// catchUpSettled ends the hold of changed rules once their informer has settled. If it has nothing to
// catch up with, and may be forbidden for ever, the objects of the cut get their turns here. It returns
// early when ctx ends.
func (in *intake) catchUpSettled(ctx context.Context, held []*live.Rule) {
	if !source.WaitUntilSettled(ctx, in.informer) {
		return
	}
	in.informer.Look(func(func(string) *object.Object) {
		for _, r := range held {
			r.Release()
		}
		for _, u := range in.latest().learns.catchUps {
			u.held = nil
		}
	})
	if in.isStepped {
		in.informer.Visit(func(known iter.Seq[*object.Object]) {
			is := in.latest()
			is.catchUpAll(known, slices.Clone(is.learns.catchUps)...)
		})
		return
	}
	in.informer.Wake()
	again := in.clock.Now()
	for !again.IsZero() && !in.informer.HasSynced() { // then CaughtUp follows, and Tick gives the turns
		if !rested(ctx, again.Sub(in.clock.Now())) {
			return
		}
		again = time.Time{}
		in.informer.Look(func(get func(string) *object.Object) {
			if is := in.latest(); !is.learns.caughtUp && !is.isDropped {
				again = is.catchUpSome(is.clock.Now(), get)
			}
		})
	}
}

// beginDeparting has a rule that follows the informer learn what became of the objects that it had
// inside in informers that it has left. It leaves out objects whose turn for this rule is still to
// come in another catch-up.
func (in *intake) beginDeparting(rule int, known iter.Seq[*object.Object], doubts bool) {
	has := func(o *object.Object) bool {
		defer in.evaluator.Forget()
		var reported evaluate.Change // its failures were reported when it came
		return in.evaluator.IsInside(rule, o, &reported)
	}
	owed := in.learns.catchUpOf(rule)
	keys := keysOf(in.learns.left[rule])
	if owed != nil {
		keys = slices.DeleteFunc(keys, owed.Owes)
	}
	pupils := []follow.Pupil{{Rule: rule, Knew: follow.Now{Has: has}}}
	u := &catchUp{CatchUp: follow.New(pupils, inOrder(keys, in.isStepped)), departs: true, doubts: doubts}
	in.learns.catchUps = append(in.learns.catchUps, u)
	end := in.record.begin()
	in.learns.left[rule].begin()
	end()
	if in.isStepped {
		in.catchUpAll(known, u)
		return
	}
	in.informer.Wake()
}

// keysOf returns the keys of the objects that a rule had inside in informers that it has left.
func keysOf(l *left) []string {
	if l == nil {
		return nil
	}
	keys := make([]string, 0, len(l.Objects))
	for _, o := range l.Objects {
		keys = append(keys, o.Key())
	}
	return keys
}

// inOrder yields keys; sorted if the turns must be the same in each run.
func inOrder(keys []string, isSorted bool) iter.Seq[string] {
	if isSorted {
		slices.Sort(keys)
	}
	return slices.Values(keys)
}

// turnsBefore gives the object of a step the turns that come before the step. Before the step of a
// round these are all turns, otherwise those of rules that follow the informer.
func (in *intake) turnsBefore(s source.Step) {
	last := s.Before()
	if s.Round != nil {
		last = s.Delta.Object
	}
	for _, u := range in.learns.catchUps {
		if key := s.Delta.Object.Key(); u.Owes(key) && (u.departs || s.Round != nil) {
			u.Took(key)
			in.takeTurn(u, key, last)
		}
	}
}

// catchUpStep adds to c what a step does whose object has not had its turn: the step is that turn.
func (in *intake) catchUpStep(s evaluate.Step, c *evaluate.Change) {
	key := s.Delta.Object.Key()
	var owing []*catchUp
	for _, u := range in.learns.catchUps {
		if u.Owes(key) && !u.departs {
			u.isNow = true
			owing = append(owing, u)
		}
	}
	in.evaluator.Evaluate(s, c) // for the others
	last := s.Delta.Object
	if s.Delta.Old != nil {
		last = s.Delta.Old
	}
	for _, u := range owing {
		u.isNow = false
		u.Took(key)
		for _, p := range u.Pupils {
			before := in.learns.knew(p, s.Delta.Key(), last)
			if s.Delta.Type == delta.Deleted {
				in.evaluator.Gone(p.Rule, before, s, in.isSecret(), c)
			} else {
				in.evaluator.Compare(p.Rule, before, s, in.isSecret(), c)
			}
		}
	}
	in.evaluator.Forget()
}

// catchUpSome gives some objects their turns, and returns when to go on; the zero time means that all
// rules have caught up.
func (in *intake) catchUpSome(began time.Time, get func(key string) *object.Object) (again time.Time) {
	for len(in.learns.catchUps) > 0 {
		u := in.learns.catchUps[0]
		if len(u.held) > 0 { // catchUpSettled wakes
			return time.Time{}
		}
		for key, ok := u.Next(); ok; key, ok = u.Next() {
			in.takeTurn(u, key, get(key))
			if now := in.clock.Now(); now.Sub(began) > in.turn {
				return now.Add(timing.Lull * now.Sub(began))
			}
		}
		in.learns.catchUps = slices.Delete(in.learns.catchUps, 0, 1) // which keeps nothing of it
		in.caughtUpWith(u)
	}
	return time.Time{}
}

// catchUpAll gives all objects of some catch-ups their turns at once: known are those that the informer
// has.
func (in *intake) catchUpAll(known iter.Seq[*object.Object], all ...*catchUp) {
	if len(all) == 0 {
		return
	}
	there := make(map[string]*object.Object)
	for o := range known {
		there[o.Key()] = o
	}
	for _, u := range all {
		for key, ok := u.Next(); ok; key, ok = u.Next() {
			in.takeTurn(u, key, there[key])
		}
		in.learns.catchUps = slices.DeleteFunc(in.learns.catchUps, func(of *catchUp) bool { return of == u })
		in.caughtUpWith(u)
	}
}

// takeTurn gives an object its turn, between two steps. o is nil if it is gone.
func (in *intake) takeTurn(u *catchUp, key string, o *object.Object) {
	switch {
	case u.departs:
		in.depart(u.Pupils[0], delta.ParseKey(key), o)
		return
	case o == nil:
		in.turnOfGone(u, key)
		return
	}
	in.tell(o, func(s evaluate.Step, c *evaluate.Change) {
		for _, p := range u.Pupils {
			before := in.learns.knew(p, s.Delta.Key(), o)
			in.evaluator.Compare(p.Rule, before, s, in.isSecret(), c)
		}
		if in.isSecret() { // its record names the rules that have it inside
			in.note(s.Delta, c)
		}
	})
}

// turnOfGone gives an object that is gone its turn: the rules that had it inside learn that.
func (in *intake) turnOfGone(u *catchUp, key string) {
	for _, p := range u.Pupils {
		before := in.learns.knew(p, delta.ParseKey(key), nil)
		if !before.Inside {
			continue
		}
		in.tell(before.Object, func(s evaluate.Step, c *evaluate.Change) {
			in.evaluator.Depart(p.Rule, before.Object, s.Now, in.isSecret(), c)
		})
	}
}

// depart gives an object its turn for a rule that follows the informer. last is the object as the rule
// knows it from there, or nil.
func (in *intake) depart(p follow.Pupil, key delta.Key, last *object.Object) {
	l := in.learns.left[p.Rule]
	if l == nil {
		return
	}
	gone := p.Departed(key, last, &l.Inside)
	delete(l.Objects, key)
	if gone != nil {
		in.tell(gone, func(s evaluate.Step, c *evaluate.Change) {
			in.evaluator.Depart(p.Rule, gone, s.Now, in.isSecret(), c)
		})
	}
}

// caughtUpWith records that the rules of a catch-up follow the informer, in one cut with everything
// that was held back for them.
func (in *intake) caughtUpWith(u *catchUp) {
	var held []evaluate.Change
	if u.resumes && in.learns.resuming != nil {
		p := in.learns.resuming
		in.learns.resuming = nil
		held = in.held(p)
	}
	defer in.informer.Wake() // gauges may be complete
	defer in.record.begin()()
	for i := range held {
		in.record.apply(&held[i], nil)
	}
	for _, p := range u.Pupils {
		r := in.rules[p.Rule]
		if !u.departs {
			r.Memory.See(in.id)
		}
		goesOn := func(of *catchUp) bool { return of.Has(p.Rule) }
		if !slices.ContainsFunc(in.learns.catchUps, goesOn) {
			in.parted(p.Rule)
		}
		doubts := func(of *catchUp) bool { return of.doubts && goesOn(of) }
		if u.doubts && !slices.ContainsFunc(in.learns.catchUps, doubts) {
			r.Memory.EndCatchUp()
		}
	}
}
