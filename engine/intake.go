package engine

import (
	"cmp"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/due"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/gauges"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/rounds"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/timing"
)

// intake consumes the steps of one informer. It has each step evaluated for the informer's rules,
// and commits the change. It implements source.Consumer.
//
// The informer calls it one step at a time, with its own lock held. That lock guards all fields but
// the first ones. It has many fields because an informer, its rules, and what they still have to
// learn meet here.
type intake struct {
	planned  *plan.Informer
	id       string // under which the state keeps the informer
	informer *source.Informer
	indexed  map[string]*live.Failures // of the informer's indexes; only build uses it

	rules     []*live.Rule
	evaluator *evaluate.Evaluator
	clock     clock.PassiveClock
	offering  offering  // to the rules' lanes
	waits     due.Rules // what waits to become a member
	record    *record   // nil keeps no record
	// Rounds implements the part of source.Consumer that is about rounds.
	*rounds.Rounds
	learns    learning    // what rules still have to learn
	gauges    *gauges.Set // nil if it has none
	isStepped bool        // a Stepper drives the engine, so nothing comes in turns
	turn      time.Duration
	// before is the intake of the same informer whose place this one is to take, until it does.
	before *intake
	// present is shared by all intakes of the informer, so that a stale reference to an old one
	// does not keep intermediate ones alive.
	present *present
	isNew   bool // of an informer that has not begun
	// isDropped says that a Reload has ended the informer.
	isDropped bool
	change    evaluate.Change // reused for each step
}

// present is the intake that an informer has now. The informer's lock guards it.
type present struct{ *intake }

// newIntake returns the intake of an informer, without rules. before is that of the informer so far,
// or nil.
func (b *builder) newIntake(planned *plan.Informer, before *intake) *intake {
	in := &intake{
		planned: planned, id: resume.InformerID(planned.Selection, planned.Fixed != nil), clock: b.clock,
		offering: offering{clock: b.clock, dead: b.dead},
		learns:   newLearning(planned.Resource == object.Secrets),
		before:   before, isStepped: b.stepping != nil, turn: cmp.Or(b.options.catchUpTurn, timing.Turn),
	}
	if before != nil {
		in.informer, in.indexed = before.informer, before.indexed
		in.record, in.present = before.record, before.present
		return in
	}
	in.present = &present{in}
	selection := planned.Selection
	if planned.Fixed != nil {
		in.informer = b.informers.Fixed(selection, planned.Fixed)
	} else {
		in.informer = b.informers.Informer(selection)
	}
	in.informer.Keep(planned.Keep, planned.View)
	in.indexed, in.isNew = make(map[string]*live.Failures), true
	in.record = b.newRecord(in.id, planned, in.informer)
	return in
}

// bind sets the rules.
func (in *intake) bind(rules []*live.Rule) {
	old := new(object.Paths)
	var bindings []evaluate.Binding
	for _, r := range rules {
		old.Union(r.OldPaths())
		in.rules = append(in.rules, r)
		in.offering.add(r)
		in.waits.Add(&r.Rule.Rule, &r.Timed, in.clock.Now())
		bindings = append(bindings, evaluate.Binding{
			Rule: &r.Rule.Rule, ID: r.ID, Caches: r.Preparer.Changes, KnowsOwn: r.KnowsOwn,
			Rounds: r.Rounds, OnlyInRounds: r.OnlyInRounds,
		})
	}
	scope := evaluate.NewScope(object.NewDecoder(in.planned.View), object.NewDecoder(old))
	in.evaluator = evaluate.New(bindings, in.standing, scope)
}

// standing returns how a rule takes part in the evaluation of a step.
func (in *intake) standing(i int) evaluate.Standing {
	return evaluate.Standing{
		// A rule that only sees rounds learns nothing at first sight, so it misses nothing.
		Deaf: in.learns.isDeaf(i) && !in.rules[i].OnlyInRounds ||
			in.learns.isDeafNow(i),
		Undecided:  in.rules[i].IsHeld(),
		RoundsDone: in.Done(i),
		Marks:      in.waits.Marks(i),
	}
}

// hears reports whether a rule has seen an object.
func (in *intake) hears(rule int, key string) bool {
	return !in.learns.isDeaf(rule) && !in.learns.owes(rule, key)
}

// hearsAll reports whether a rule decides by time over all objects of the informer, or not by time.
func (in *intake) hearsAll(rule int) bool {
	return !in.rules[rule].IsTimed() ||
		!in.learns.isDeaf(rule) && in.learns.catchUpOf(rule) == nil
}

// Take implements source.Consumer. Whatever panics, the step is recorded: the informer counts it as
// taken.
func (in *intake) Take(s source.Step) {
	in.record.pace()
	if s.Delta.Object != nil {
		in.turnsBefore(s)
	}
	if s.Withdrawn {
		in.comeAnew()
	}
	c := &in.change
	c.Reset()
	c.Moved, c.Position = s.Moved, s.Position
	defer in.commit(c, s.Delta.Object)
	if s.Delta.Object != nil {
		in.evaluate(s, c)
		if s.Round == nil {
			in.gauges.Measure(s.Delta.Object, s.Delta.Type == delta.Deleted, s.Tree, c)
		}
	}
}

// evaluate adds to c what the step does to the rules, and to the record.
func (in *intake) evaluate(s source.Step, c *evaluate.Change) {
	d := s.Delta
	if s.Round == nil {
		defer in.note(d, c)
	}
	now := in.offering.begin()
	step := evaluate.Step{Delta: d, Tree: s.Tree, Round: s.Round, Gap: s.Gap, Now: now}
	switch {
	case in.learns.resuming.isPart(d):
		in.lastOf(step, c)
	case s.Saved != nil:
		in.returned(step, s.Saved, c)
	case s.Round == nil && in.learns.owesAny(d.Object):
		in.catchUpStep(step, c)
	default:
		if in.offering.knowsOwn {
			step.Version = versionOf(d)
		}
		in.evaluator.Evaluate(step, c)
	}
}

// note adds to c how to record the delta's object, and which rules it waits for. For a Secret it also
// records which rules have it inside and which have not seen this change, because the identity alone
// cannot answer that later.
func (in *intake) note(d delta.Delta, c *evaluate.Change) {
	if in.record == nil {
		return
	}
	c.Record(d)
	if c.Put == nil {
		return
	}
	if in.record.isSecret {
		was := func(i int) (inside, ok bool) { return in.learns.wasBehind(i, c.Put) }
		c.Inside = in.evaluator.Inside(c.Put, c, was)
		c.Inside = append(c.Inside, in.learns.missedBy(c.Put, in.rules)...)
	}
	for _, i := range in.waits.Timed() {
		if mark := in.evaluator.Mark(i, c.Put, c); !mark.IsZero() {
			at := in.waits.Recorded(i, mark, in.clock.Now())
			c.Inside = append(c.Inside, resume.Mark{Rule: in.rules[i].ID, At: at}.String())
		}
	}
}

// commit applies the change that o causes in one cut: the lanes take their matches, and the state
// takes its records. Within the cut nothing is evaluated, logged or waited for. commit reports the
// change afterwards. o is nil if only the position moves.
func (in *intake) commit(c *evaluate.Change, o *object.Object) {
	in.offering.stamp(c)
	if !c.IsEmpty() {
		in.apply(c)
	}
	in.gauges.Apply(c)
	in.offering.report(c, o)
}

// apply does the work of commit, as one cut.
func (in *intake) apply(c *evaluate.Change) {
	if in.record != nil {
		in.record.store.Begin()
		defer in.record.store.End()
	}
	for i := range c.Matches {
		in.offering.offer(&c.Matches[i], c)
	}
	if in.waits.Apply(c.Waits) {
		in.informer.Wake()
	}
	in.record.apply(c, in.learns.resuming)
}

// tell evaluates an object for some rules, and commits the change. evaluate adds to the change what
// these rules must see.
func (in *intake) tell(o *object.Object, evaluate func(step evaluate.Step, c *evaluate.Change)) {
	in.record.pace()
	c := &in.change
	c.Reset()
	evaluate(in.step(o), c)
	if len(c.Waits) > 0 {
		in.note(delta.Delta{Type: delta.Synced, Object: o}, c)
	}
	in.evaluator.Forget()
	in.commit(c, o)
	if in.gauges.Later(o) {
		in.informer.Wake()
	}
}

func (in *intake) isSecret() bool { return in.planned.Resource == object.Secrets }

// latest returns the intake that has taken the place of in, or in.
func (in *intake) latest() *intake { return in.present.intake }

// panicked is how much longer an object waits if its evaluation panics.
const panicked = time.Minute

// Tick implements source.Consumer. It has rules catch up, makes members of the objects that have waited
// long enough, and measures objects for gauges.
func (in *intake) Tick(began time.Time, get func(key string) *object.Object) (again time.Time) {
	if len(in.learns.catchUps) > 0 {
		again = in.catchUpSome(began, get)
		began = in.clock.Now()
	}
	again = timing.Earlier(again, in.waits.Elapse(due.Turn{
		Began: began, Now: in.clock.Now, Informer: in.informer, Get: get, Decide: in.elapse,
	}))
	return timing.Earlier(again, in.gauges.Turn(in.clock.Now(), in.clock.Now, get))
}

// elapse has the evaluator decide about an object that waits for a rule, and is ready.
func (in *intake) elapse(i int, o *object.Object, now time.Time) {
	in.record.pace()
	c := &in.change
	c.Reset()
	in.offering.now = now
	in.evaluator.Elapse(i, o, now, c)
	if len(c.Waits) == 0 { // a panic, which only a defect of informd can cause: it waits on
		mark := now.Add(panicked - in.rules[i].For)
		c.Waits = append(c.Waits, evaluate.Wait{Rule: i, Of: o, Mark: mark})
	}
	in.note(delta.Delta{Type: delta.Synced, Object: o}, c)
	in.gauges.Measure(o, false, nil, c)
	in.commit(c, o)
}

func (in *intake) step(o *object.Object) evaluate.Step {
	now := in.offering.begin()
	return evaluate.Step{Delta: delta.Delta{Type: delta.Synced, Object: o}, Now: now}
}

// comeAnew begins another occasion for all rules of the intake: its objects count as deleted, and
// may come back as they are.
func (in *intake) comeAnew() {
	defer in.record.begin()()
	for _, r := range in.rules {
		r.Anew(0)
	}
}
