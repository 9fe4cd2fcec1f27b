package engine

import (
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/object"
)

// catchUp has rules of an intake catch up, an object at a time: see package follow. The informer gives
// it turns between the steps, and while it lasts, the other rules see these steps as ever.
type catchUp struct {
	*follow.CatchUp
	// resumes says that it ends what the intake needs of the cut that it resumes from.
	resumes bool
	// departs says that its rule follows the informer, and only learns what became of the objects that it
	// had inside in informers that it has left.
	departs bool
	doubts  bool // the lanes of its rules doubt what they hold until it has ended
	isNow   bool // the step at hand is of an object that is owed
}

// isCatchingUp reports whether a rule of the intake has not caught up.
func (in *intake) isCatchingUp() bool { return in.resuming != nil || len(in.catchUps) > 0 }

// catchUpOf returns the catch-up of a rule that does not follow the informer; nil if it has none.
func (in *intake) catchUpOf(rule int) *catchUp {
	for _, u := range in.catchUps {
		if u.Has(rule) && !u.departs {
			return u
		}
	}
	return nil
}

// owes reports whether a rule has not learned of an object.
func (in *intake) owes(rule int, key string) bool {
	u := in.catchUpOf(rule)
	return u != nil && u.Owes(key)
}

// owesAny reports whether any rule has not learned of an object.
func (in *intake) owesAny(key string) bool {
	return slices.ContainsFunc(in.catchUps, func(u *catchUp) bool { return u.Owes(key) && !u.departs })
}

// isBehind reports whether a rule has not learned what has become of an object in the cut.
func (in *intake) isBehind(rule int, key string) bool {
	if in.resuming.isLate(rule) {
		return true
	}
	u := in.catchUpOf(rule)
	return u != nil && u.resumes && u.Owes(key)
}

// isDeafNow reports whether a rule catches up, and the step at hand is the turn of its object.
func (in *intake) isDeafNow(rule int) bool {
	u := in.catchUpOf(rule)
	return u != nil && u.isNow
}

// beginCatchUp has rules catch up. known are the objects that the informer has, and knew the keys of
// others that the rules know. If this run ends in between, what they have learned until then must not
// be forgotten: that is recorded now. It cannot be of parts of objects in a cut, so rules that know
// these catch up at once.
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
	u.Add(in.inOrder(knew))
	for _, p := range pupils {
		u.Add(in.inOrder(keysOf(in.left[p.Rule])))
	}
	in.catchUps = append(in.catchUps, u)
	isAtOnce := in.isStepped || resumes && in.resuming.holds
	end := in.record.begin()
	for _, p := range pupils {
		in.left[p.Rule].begin()
		if !isAtOnce {
			in.rules[p.Rule].memory.catchUp(in.id)
		}
	}
	end()
	if isAtOnce {
		in.catchUpAll(known, u)
		return
	}
	in.informer.Wake()
}

// beginDeparting has a rule that follows the informer learn what became of the objects that it had
// inside in informers that it has left. Those that it is owed already are not among them.
func (in *intake) beginDeparting(rule int, known iter.Seq[*object.Object], doubts bool) {
	has := func(o *object.Object) bool {
		defer in.evaluator.Forget()
		var reported evaluate.Change // its failures were reported when it came
		return in.evaluator.IsInside(rule, o, &reported)
	}
	owed := in.catchUpOf(rule)
	keys := keysOf(in.left[rule])
	if owed != nil {
		keys = slices.DeleteFunc(keys, owed.Owes)
	}
	pupils := []follow.Pupil{{Rule: rule, Knew: follow.Now{Has: has}}}
	u := &catchUp{CatchUp: follow.New(pupils, in.inOrder(keys)), departs: true, doubts: doubts}
	in.catchUps = append(in.catchUps, u)
	end := in.record.begin()
	in.left[rule].begin()
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

// inOrder yields keys. If a run must be the same each time, it sorts them.
func (in *intake) inOrder(keys []string) iter.Seq[string] {
	if in.isStepped {
		slices.Sort(keys)
	}
	return slices.Values(keys)
}

// knew returns an object as a pupil saw it last, and forgets that it had it inside elsewhere. last is
// the object as the informer had it last, or nil.
func (in *intake) knew(
	p follow.Pupil, key delta.Key, last *object.Object,
) evaluate.Before {
	l := in.left[p.Rule]
	if l == nil {
		return p.Before(key, last, nil)
	}
	defer delete(l.Objects, key)
	return p.Before(key, last, &l.Inside)
}

// departFirst gives an object its turns before a step for the rules that follow the informer: last is
// the object as they know it from there, or nil.
func (in *intake) departFirst(key string, last *object.Object) {
	for _, u := range in.catchUps {
		if u.departs && u.Owes(key) {
			u.Took(key)
			in.takeTurn(u, key, last)
		}
	}
}

// catchUpStep adds to c what a step does whose object is owed: it is the object's turn.
func (in *intake) catchUpStep(s evaluate.Step, c *evaluate.Change) {
	key := s.Delta.Object.Key()
	var owing []*catchUp
	for _, u := range in.catchUps {
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
			before := in.knew(p, s.Delta.Key(), last)
			if s.Delta.Type == delta.Deleted {
				in.gone(p.Rule, before, s, c)
			} else {
				in.differ(p.Rule, before, s, c)
			}
		}
	}
	in.evaluator.Forget()
}

// differ adds to c what a rule must learn of an object that it last saw as before.
func (in *intake) differ(
	i int, before evaluate.Before, s evaluate.Step, c *evaluate.Change,
) {
	if before.Object != nil && before.Object.UID() != s.Delta.Object.UID() {
		if before.Inside {
			in.evaluator.Depart(i, before.Object, s.Now, in.isSecret(), c)
		}
		before = evaluate.Before{}
	}
	in.evaluator.Compare(i, before, s, in.isSecret(), c)
}

// gone adds to c what a rule must learn of an object that it last saw as before, and that is gone. The
// step has the object's last state.
func (in *intake) gone(i int, before evaluate.Before, s evaluate.Step, c *evaluate.Change) {
	last := s.Delta.Object
	in.evaluator.Unwait(i, last, c)
	switch {
	case !before.Inside:
	case before.Object.UID() != last.UID():
		in.evaluator.Depart(i, before.Object, s.Now, in.isSecret(), c)
	default:
		in.evaluator.Depart(i, last, s.Now, false, c)
	}
}

// catchUpFirst gives an object its turn if it is owed, before a round has it.
func (in *intake) catchUpFirst(o *object.Object) {
	for _, u := range in.catchUps {
		if key := o.Key(); u.Owes(key) {
			u.Took(key)
			in.takeTurn(u, key, o)
		}
	}
}

// catchUpSome gives some objects their turns, and returns when to go on; the zero time means that all
// rules have caught up.
func (in *intake) catchUpSome(began time.Time, get func(key string) *object.Object) (again time.Time) {
	for len(in.catchUps) > 0 {
		u := in.catchUps[0]
		for key, ok := u.Next(); ok; key, ok = u.Next() {
			in.takeTurn(u, key, get(key))
			if now := in.clock.Now(); now.Sub(began) > in.turn {
				return now.Add(lull * now.Sub(began))
			}
		}
		in.catchUps = slices.Delete(in.catchUps, 0, 1) // which keeps nothing of it
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
		in.catchUps = slices.DeleteFunc(in.catchUps, func(of *catchUp) bool { return of == u })
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
			before := in.knew(p, s.Delta.Key(), o)
			in.differ(p.Rule, before, s, c)
		}
		if in.isSecret() { // who has it inside stands beside its record
			in.note(s.Delta, c)
		}
	})
}

// turnOfGone gives an object its turn that is gone: the rules that had it inside learn that.
func (in *intake) turnOfGone(u *catchUp, key string) {
	for _, p := range u.Pupils {
		before := in.knew(p, delta.ParseKey(key), nil)
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
	l := in.left[p.Rule]
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
	if u.resumes && in.resuming != nil {
		p := in.resuming
		in.resuming = nil
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
			r.memory.see(in.id)
		}
		goesOn := func(of *catchUp) bool { return of.Has(p.Rule) }
		if !slices.ContainsFunc(in.catchUps, goesOn) {
			in.parted(p.Rule)
		}
		if u.doubts {
			r.memory.endCatchUp()
		}
	}
}
