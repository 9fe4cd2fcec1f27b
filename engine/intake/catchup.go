package intake

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
	// departs says that its rule follows the informer, and only learns what became of the objects
	// that it had inside in informers that it has left.
	departs bool
	held    []*live.Rule // until the informer has settled
	doubts  bool         // the lanes of its rules doubt what they hold until it has ended
	isNow   bool         // the current step is the turn of its object
}

// tutor has rules catch up, from a restart to the last turn. The informer's lock guards it.
type tutor struct{ *judge }

// BeginCatchUp has rules catch up. known are the objects that the informer has, and knew the keys
// of others that the rules know. If this run ends in between, the next one must know that they have
// learned a part: BeginCatchUp records that now. It cannot do so for rules that know parts of
// objects in a cut, so these catch up at once.
func (t *tutor) BeginCatchUp(
	pupils []follow.Pupil, known iter.Seq[*object.Object], knew []string, resumes bool,
) {
	if len(pupils) == 0 {
		return
	}
	u := &catchUp{CatchUp: follow.New(pupils, known), resumes: resumes, doubts: resumes}
	u.Add(inOrder(knew, t.options.IsStepped))
	for _, p := range pupils {
		u.Add(inOrder(keysOf(t.learns.left[p.Rule]), t.options.IsStepped))
	}
	t.learns.catchUps = append(t.learns.catchUps, u)
	isAtOnce := t.options.IsStepped || resumes && t.learns.resuming.holds
	end := t.sinks.record.begin()
	for _, p := range pupils {
		t.learns.left[p.Rule].begin()
		if !isAtOnce {
			t.Rules[p.Rule].Memory.CatchUp(t.ID)
		}
	}
	end()
	if isAtOnce {
		t.catchUpAll(known, u)
		return
	}
	t.Informer.Wake()
}

// beginFollowing has changed rules follow the informer with which the objects of the cut were
// saved, before any step. They catch up with what they had inside then.
func (t *tutor) beginFollowing(changed []follow.Pupil, objects []*object.Object) {
	if len(changed) == 0 {
		return
	}
	u := &catchUp{CatchUp: follow.New(changed, slices.Values(objects)), doubts: true}
	t.learns.catchUps = append(t.learns.catchUps, u) // restore records that
	for _, p := range changed {
		u.held = append(u.held, t.Rules[p.Rule])
		t.Rules[p.Rule].Hold()
	}
}

// OnceSettled returns a function that waits until the informer has settled, and ends the hold of
// changed rules then; nil if there are none. If the informer does not sync, because it is forbidden
// for example, the function gives the objects of the cut their turns. It returns early when its
// context ends. OnceSettled is called before any step.
func (in *Intake) OnceSettled() func(context.Context) {
	if len(in.learns.catchUps) == 0 {
		return nil
	}
	held := in.learns.catchUps[0].held
	return func(ctx context.Context) { in.catchUpSettled(ctx, held) }
}

// catchUpSettled does the work of OnceSettled. held are the rules.
func (in *Intake) catchUpSettled(ctx context.Context, held []*live.Rule) {
	if !source.WaitUntilSettled(ctx, in.Informer) {
		return
	}
	in.Look(func(is *Intake, _ func(string) *object.Object) {
		for _, r := range held {
			r.Release()
		}
		for _, u := range is.learns.catchUps {
			u.held = nil
		}
	})
	if in.options.IsStepped {
		in.visit(func(is *Intake, known iter.Seq[*object.Object]) {
			is.catchUpAll(known, slices.Clone(is.learns.catchUps)...)
		})
		return
	}
	in.Informer.Wake()
	again := in.options.Clock.Now()
	for !again.IsZero() && !in.Informer.HasSynced() { // then CaughtUp follows, and Tick gives the turns
		if !Rest(ctx, again.Sub(in.options.Clock.Now())) {
			return
		}
		again = time.Time{}
		in.Look(func(is *Intake, get func(string) *object.Object) {
			if !is.learns.caughtUp && !is.line.isDropped {
				again = is.catchUpSome(is.options.Clock.Now(), get)
			}
		})
	}
}

// beginDeparting has a rule that follows the informer learn what became of the objects that it had
// inside in informers that it has left.
func (t *tutor) beginDeparting(rule int, known iter.Seq[*object.Object], doubts bool) {
	has := func(o *object.Object) bool { return t.IsInside(rule, o) }
	pupils := []follow.Pupil{{Rule: rule, Knew: follow.Now{Has: has}}}
	turns := follow.New(pupils, nil)
	turns.Add(inOrder(keysOf(t.learns.left[rule]), t.options.IsStepped))
	u := &catchUp{CatchUp: turns, departs: true, doubts: doubts}
	t.learns.catchUps = append(t.learns.catchUps, u)
	end := t.sinks.record.begin()
	t.learns.left[rule].begin()
	end()
	if t.options.IsStepped {
		t.catchUpAll(known, u)
		return
	}
	t.Informer.Wake()
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
func (t *tutor) turnsBefore(s source.Step) {
	last := s.Before()
	if s.Round != nil {
		last = s.Delta.Object
	}
	for _, u := range t.learns.catchUps {
		if key := s.Delta.Object.Key(); u.Owes(key) && (u.departs || s.Round != nil) {
			u.Took(key)
			t.takeTurn(u, key, last)
		}
	}
}

// catchUpStep adds to c what a step does whose object has not had its turn: the step is that turn.
func (t *tutor) catchUpStep(s evaluate.Step, c *evaluate.Change) {
	key := s.Delta.Object.Key()
	var owing []*catchUp
	for _, u := range t.learns.catchUps {
		if u.Owes(key) && !u.departs {
			u.isNow = true
			owing = append(owing, u)
		}
	}
	t.evaluator.Evaluate(s, c) // for the others
	last := s.Delta.Object
	if s.Delta.Old != nil {
		last = s.Delta.Old
	}
	for _, u := range owing {
		u.isNow = false
		u.Took(key)
		for _, p := range u.Pupils {
			before := t.learns.knew(p, s.Delta.Key(), last)
			if s.Delta.Type == delta.Deleted {
				t.evaluator.Gone(p.Rule, before, s, t.learns.isSecret, c)
			} else {
				t.evaluator.Compare(p.Rule, before, s, t.learns.isSecret, c)
			}
		}
	}
	t.evaluator.Forget()
}

// catchUpSome gives some objects their turns, and returns when to go on; the zero time means that
// all rules have caught up, or that OnceSettled goes on.
func (t *tutor) catchUpSome(began time.Time, get func(key string) *object.Object) (again time.Time) {
	for len(t.learns.catchUps) > 0 {
		u := t.learns.catchUps[0]
		if len(u.held) > 0 { // catchUpSettled wakes
			return time.Time{}
		}
		for key, ok := u.Next(); ok; key, ok = u.Next() {
			t.takeTurn(u, key, get(key))
			if now := t.options.Clock.Now(); now.Sub(began) > t.options.Turn {
				return now.Add(timing.Lull * now.Sub(began))
			}
		}
		t.learns.catchUps = slices.Delete(t.learns.catchUps, 0, 1) // which keeps nothing of it
		t.caughtUpWith(u)
	}
	return time.Time{}
}

// catchUpAll gives all objects of some catch-ups their turns at once. known are those that the
// informer has.
func (t *tutor) catchUpAll(known iter.Seq[*object.Object], all ...*catchUp) {
	if len(all) == 0 {
		return
	}
	there := make(map[string]*object.Object)
	for o := range known {
		there[o.Key()] = o
	}
	for _, u := range all {
		for key, ok := u.Next(); ok; key, ok = u.Next() {
			t.takeTurn(u, key, there[key])
		}
		t.learns.catchUps = slices.DeleteFunc(t.learns.catchUps, func(of *catchUp) bool { return of == u })
		t.caughtUpWith(u)
	}
}

// takeTurn gives an object its turn, between two steps. o is nil if it is gone.
func (t *tutor) takeTurn(u *catchUp, key string, o *object.Object) {
	switch {
	case u.departs:
		t.depart(u.Pupils[0], delta.ParseKey(key), o)
		return
	case o == nil:
		t.turnOfGone(u, key)
		return
	}
	t.tell(o, func(s evaluate.Step, c *evaluate.Change) {
		for _, p := range u.Pupils {
			before := t.learns.knew(p, s.Delta.Key(), o)
			t.evaluator.Compare(p.Rule, before, s, t.learns.isSecret, c)
		}
		if t.learns.isSecret { // its record names the rules that have it inside
			t.note(s.Delta, c)
		}
	})
}

// turnOfGone gives an object that is gone its turn: the rules that had it inside learn that.
func (t *tutor) turnOfGone(u *catchUp, key string) {
	for _, p := range u.Pupils {
		before := t.learns.knew(p, delta.ParseKey(key), nil)
		if !before.Inside {
			continue
		}
		t.tell(before.Object, func(s evaluate.Step, c *evaluate.Change) {
			t.evaluator.Depart(p.Rule, before.Object, s.Now, t.learns.isSecret, c)
		})
	}
}

// depart gives an object its turn for a rule that follows the informer. last is the object as the
// informer had it last, or nil. An object whose turn for the rule is still to come in another
// catch-up is left to that.
func (t *tutor) depart(p follow.Pupil, key delta.Key, last *object.Object) {
	l := t.learns.left[p.Rule]
	if l == nil || last != nil && t.learns.owes(p.Rule, key.String()) {
		return
	}
	gone := p.Departed(key, last, &l.Inside)
	delete(l.Objects, key)
	if gone != nil {
		t.tell(gone, func(s evaluate.Step, c *evaluate.Change) {
			t.evaluator.Depart(p.Rule, gone, s.Now, t.learns.isSecret, c)
		})
	}
}

// caughtUpWith records that the rules of a catch-up follow the informer, in one cut with everything
// that was held back for them.
func (t *tutor) caughtUpWith(u *catchUp) {
	var held []evaluate.Change
	if u.resumes && t.learns.resuming != nil {
		p := t.learns.resuming
		t.learns.resuming = nil
		held = t.held(p)
	}
	defer t.Informer.Wake() // gauges may be complete
	defer t.sinks.record.begin()()
	for i := range held {
		t.sinks.record.apply(&held[i], nil)
	}
	for _, p := range u.Pupils {
		r := t.Rules[p.Rule]
		if !u.departs {
			r.Memory.See(t.ID)
		}
		goesOn := func(of *catchUp) bool { return of.Has(p.Rule) }
		// before the informer has caught up, nothing was learned of those that the rule has left
		if t.learns.caughtUp && !slices.ContainsFunc(t.learns.catchUps, goesOn) {
			t.parted(p.Rule)
		}
		doubts := func(of *catchUp) bool { return of.doubts && goesOn(of) }
		if u.doubts && !slices.ContainsFunc(t.learns.catchUps, doubts) {
			r.Memory.EndCatchUp()
		}
	}
}
