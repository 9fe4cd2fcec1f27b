package intake

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/gauges"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
)

// HasCatchUps reports whether rules catch up now, in turns. It may be called at any time.
func (in *Intake) HasCatchUps() (is bool) {
	in.Look(func(in *Intake, _ func(string) *object.Object) { is = len(in.learns.catchUps) > 0 })
	return is
}

// IsCatchingUp reports whether a rule has not caught up: it does so in turns, or still waits to
// begin. It may be called at any time.
func (in *Intake) IsCatchingUp() (is bool) {
	in.Look(func(in *Intake, _ func(string) *object.Object) { is = in.learns.isCatchingUp() })
	return is
}

// Look calls do between two steps, with the intake that the informer has then, and a function that
// returns the object of a key, or nil. It may be called at any time.
func (in *Intake) Look(do func(in *Intake, get func(key string) *object.Object)) {
	in.Informer.Look(func(get func(string) *object.Object) { do(in.line.now, get) })
}

// visit is like Look, with all objects.
func (in *Intake) visit(do func(in *Intake, known iter.Seq[*object.Object])) {
	in.Informer.Visit(func(known iter.Seq[*object.Object]) { do(in.line.now, known) })
}

// Keys returns the keys of all objects of the informer. It may be called at any time.
func (in *Intake) Keys() (keys []string) {
	in.visit(func(_ *Intake, known iter.Seq[*object.Object]) {
		for o := range known {
			keys = append(keys, o.Key())
		}
	})
	return keys
}

// InTurns calls do with each key and its object, or nil if the informer does not have it. It calls
// do between two steps, with the intake that the informer has then. Its turns keep changes waiting
// no longer than those of a round do. If do returns false, or ctx ends, InTurns returns early. It
// returns how many keys are left, with the one for which do has returned false. It may be called at
// any time.
func (in *Intake) InTurns(
	ctx context.Context, keys []string, do func(in *Intake, key string, o *object.Object) bool,
) (left int) {
	if in.options.IsStepped {
		slices.Sort(keys)
	}
	for goesOn := true; goesOn && len(keys) > 0; {
		var took time.Duration
		in.Look(func(is *Intake, get func(string) *object.Object) {
			began := time.Now() // the lock is held from now on
			defer func() { took = time.Since(began) }()
			for len(keys) > 0 && (in.options.IsStepped || time.Since(began) < in.options.Turn) {
				of := keys
				keys = of[1:] // before do, which may panic: the informer logs that, and the others follow
				if goesOn = do(is, of[0], get(of[0])); !goesOn {
					keys = of
					return
				}
			}
		})
		if goesOn && len(keys) > 0 {
			goesOn = Rest(ctx, timing.Lull*took)
		}
	}
	return len(keys)
}

// awaitCaughtUp returns when the intake's informer has caught up.
func (in *Intake) awaitCaughtUp(ctx context.Context) error {
	for !in.HasCaughtUp() {
		if !Rest(ctx, 10*time.Millisecond) {
			state, reason := in.Informer.State()
			return fmt.Errorf("%v is %v %s: %w",
				in.Informer.Selection(), state, reason, context.Cause(ctx))
		}
	}
	return nil
}

// HasCaughtUp reports whether the intake's informer has caught up. It may be called at any time.
func (in *Intake) HasCaughtUp() (is bool) {
	in.Look(func(in *Intake, _ func(string) *object.Object) { is = in.learns.caughtUp })
	return is
}

// IsNew reports whether the informer has not begun.
func (in *Intake) IsNew() bool { return in.line.isNew }

// Replaces returns the intake whose place this one is to take; nil if there is none, or if it has
// done so.
func (in *Intake) Replaces() *Intake { return in.before }

// IsSame reports whether the intake does what the one before it does. There must be one before it.
func (in *Intake) IsSame() bool {
	return slices.Equal(in.Rules, in.before.Rules) && in.sinks.gauges.IsSame(in.before.sinks.gauges)
}

// AwaitBefore returns when the intake's informer has caught up, if a rule of the intake takes the
// place of one of the intake before. An error names the first such rule.
func (in *Intake) AwaitBefore(ctx context.Context) error {
	for _, r := range in.Rules {
		if r.Before == nil || !slices.Contains(in.before.Rules, r.Before) {
			continue
		}
		if err := in.before.awaitCaughtUp(ctx); err != nil {
			return fmt.Errorf("rule %s: what its change means cannot be told yet: %w", r.Name, err)
		}
	}
	return nil
}

// MoveGauges adds the gauges to moving that the intake before this one does not have.
func (in *Intake) MoveGauges(moving *gauges.Moving) {
	var old *gauges.Set
	if in.before != nil {
		old = in.before.sinks.gauges
	}
	moving.Add(in.sinks.gauges, old)
}

// Consume makes the informer hand its steps to the intake.
func (in *Intake) Consume() {
	in.line.isNew = false
	in.line.careful.begin(in.ID, in.Planned.Resource, in.options)
	in.sinks.waits.Count()
	in.sinks.gauges.Begin()
	in.Informer.Consume(in, in.Timetables()...)
}

// Begin makes a new informer hand its steps to the intake, while others run. all are the intakes of
// its plan.
func (in *Intake) Begin(all Set) {
	all.KeepApart(in.ID)
	// the records under its id are of an earlier time, and not complete
	if old := in.sinks.record; old != nil {
		end := old.begin()
		old.store.DropInformer(in.ID)
		in.sinks.record = newRecord(old.store, in.ID, in.Planned, in.Informer)
		for i, r := range in.Rules {
			if in.learns.isDeaf(i) { // release or CaughtUp records that it sees the informer
				r.Memory.Forget(in.ID)
			} else {
				r.Memory.See(in.ID)
			}
		}
		end()
	}
	in.Consume()
	in.Rounds.Begin(nil)
}

// Succeed makes the intake take the place of the one before it. becomes returns what a rule of that
// one is now, or nil. of gets what rules have inside that no longer see the informer.
func (in *Intake) Succeed(becomes func(*live.Rule) *live.Rule, of *Departures) {
	old := in.before
	in.Informer.Replace(in, in.Planned.View, func(
		known iter.Seq[*object.Object], get func(string) *object.Object,
	) {
		var ends []*catchUp
		for _, u := range old.learns.catchUps {
			if old.learns.caughtUp || !carries(in.Rules, old.Rules, u) {
				ends = append(ends, u)
			}
		}
		old.catchUpAll(known, ends...)
		of.leave(old, in, becomes, known, get)
		in.takeOver(known)
	}, in.Timetables()...)
	in.Rounds.Begin(old.Rounds)
}

// Drop makes the informer, which is about to stop, hand its steps to nobody. becomes and of are as
// in Succeed.
func (in *Intake) Drop(becomes func(*live.Rule) *live.Rule, of *Departures) {
	in.Informer.Replace(nil, in.Planned.View, func(
		known iter.Seq[*object.Object], get func(string) *object.Object,
	) {
		defer in.sinks.gauges.End() // also if the rest panics, which the informer logs
		in.catchUpAll(known, slices.Clone(in.learns.catchUps)...)
		of.leave(in, nil, becomes, known, get)
		in.line.isDropped = true
		for key, h := range in.line.careful.held {
			in.line.careful.forget(key, h.version)
		}
		in.EndMarks()
	})
}

// takeOver makes in the intake of its informer, in place of the one before it. The informer calls
// it between two steps.
func (in *Intake) takeOver(known iter.Seq[*object.Object]) {
	old := in.before
	in.before, in.line.now = nil, in
	in.learns.caughtUp = old.learns.caughtUp
	from := make(map[int]int) // rules that go on, by their indexes: from which in old
	var pupils []follow.Pupil
	for i, r := range in.Rules {
		j := slices.IndexFunc(old.Rules, func(was *live.Rule) bool {
			return was == r || was == r.Before
		})
		isSame := j >= 0 && old.Rules[j].Membership() == r.Membership()
		if j >= 0 {
			in.Rounds.Carry(i, old.Rounds, j)
		}
		switch {
		case j >= 0 && (old.Rules[j] == r || isSame && !old.learns.unseen[j]):
			from[i] = j
			in.learns.carry(i, &old.learns, j)
			in.sinks.waits.Carry(i, &old.sinks.waits, j)
		case j >= 0 && !old.learns.unseen[j]:
			delete(in.learns.unseen, i) // if it waits for others, it learns nevertheless, undecided
			has := func(o *object.Object) bool { return old.IsInside(j, o) }
			pupils = append(pupils, follow.Pupil{Rule: i, Knew: follow.Now{Has: has}})
		case in.learns.unseen[i]: // it learns once the sources that it looks into have settled
		case in.learns.caughtUp:
			pupils = append(pupils, follow.Pupil{Rule: i})
		default:
			in.learns.makeLate(i)
		}
	}
	in.learns.carryResuming(old.learns.resuming, from)
	for _, u := range old.learns.catchUps { // which the informer has not begun
		u.Renumber(func(j int) int { return successor(in.Rules, old.Rules[j]) })
		in.learns.catchUps = append(in.learns.catchUps, u)
	}
	in.sinks.waits.Succeed(&old.sinks.waits)
	in.sinks.gauges.TakeOver(old.sinks.gauges, known, in.learns.caughtUp)
	in.BeginCatchUp(pupils, known, nil, false)
}
