package engine

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/timing"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
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
	indexed  map[string]*failures // of the informer's indexes; only build uses it

	rules     []*runningRule
	evaluator *evaluate.Evaluator
	clock     clock.PassiveClock
	waits     []*timed // by rule; nil for rules that are not timed
	timed     []int    // the rules that are
	knowsOwn  bool     // one of the rules recognizes its own changes
	record    *record  // nil keeps no record
	dead      *dispatch.LetterBox
	moments   *moments // of all intakes
	// done are the numbers, by rule, up to which another run has told its rounds.
	done      map[int]int64
	learns    learning   // what rules still have to learn
	measuring *measuring // nil if it has no gauges
	isStepped bool       // a Stepper drives the engine, so nothing comes in turns
	turn      time.Duration
	// before is the intake of the same informer whose place this one is to take, until it does.
	before *intake
	// present is shared by all intakes of the informer, so that an old one that somebody still holds
	// keeps none of those in between.
	present *present
	isNew   bool // of an informer that has not begun
	// isDropped says that a Reload has ended the informer.
	isDropped bool
	change    evaluate.Change // reused for each step
	now       time.Time       // of the step that is evaluated and committed
}

// present is the intake that an informer has now. The informer's lock guards it.
type present struct{ *intake }

// newIntake returns the intake of an informer, without rules. before is that of the informer so far,
// or nil.
func (b *builder) newIntake(planned *plan.Informer, before *intake) *intake {
	in := &intake{
		planned: planned, id: informerID(planned), clock: b.clock, dead: b.dead, moments: b.moments,
		done: make(map[int]int64), learns: newLearning(planned.Resource == secrets),
		before: before, isStepped: b.stepping != nil, turn: cmp.Or(b.options.catchUpTurn, turn),
	}
	if before != nil {
		in.informer, in.indexed = before.informer, before.indexed
		in.record, in.present = before.record, before.present
		return in
	}
	in.present = &present{in}
	selection := source.Selection(planned.Selection)
	if planned.Fixed != nil {
		in.informer = b.informers.Fixed(selection, planned.Fixed)
	} else {
		in.informer = b.informers.Informer(selection)
	}
	in.informer.Keep(planned.Keep, planned.View)
	in.indexed, in.isNew = make(map[string]*failures), true
	in.record = b.newRecord(planned, in.informer)
	return in
}

// sourceNames returns the names of the sources that look at the informer.
func (in *intake) sourceNames(of *work) (names []string) {
	for _, s := range of.sources {
		if !s.IsRule() && slices.Contains(s.view.Informers(), in.informer) {
			names = append(names, s.Name)
		}
	}
	return names
}

// bind sets the rules.
func (in *intake) bind(rules []*runningRule) {
	old := new(object.Paths)
	var bindings []evaluate.Binding
	for _, r := range rules {
		old.Union(r.OldPaths())
		in.rules = append(in.rules, r)
		in.knowsOwn = in.knowsOwn || r.knowsOwn
		in.waits = append(in.waits, nil)
		if r.IsTimed() {
			in.makeTimed(len(in.waits)-1, newTimed(r, in.clock.Now()))
		}
		bindings = append(bindings, evaluate.Binding{
			Rule: &r.Rule.Rule, ID: r.id, Caches: r.caches, KnowsOwn: r.knowsOwn,
			Rounds: r.Rounds, OnlyInRounds: r.OnlyInRounds,
		})
	}
	scope := evaluate.NewScope(object.NewDecoder(in.planned.View), object.NewDecoder(old))
	in.evaluator = evaluate.New(bindings, in.standing, scope)
}

// timetables returns those of the rounds that rules see.
func (in *intake) timetables() (tables []timing.Timetable) {
	for _, r := range in.rules {
		if r.Rounds != nil {
			tables = append(tables, r.Rounds)
		}
	}
	return tables
}

// standing returns how a rule takes part in the evaluation of a step.
func (in *intake) standing(i int) evaluate.Standing {
	s := evaluate.Standing{
		// A rule that only hears rounds is told nothing at first sight, so it misses nothing.
		Deaf: in.learns.isDeaf(i) && !in.rules[i].OnlyInRounds ||
			in.learns.isDeafNow(i),
		Undecided:  in.rules[i].waits.Load() > 0,
		RoundsDone: in.done[i],
	}
	if w := in.waits[i]; w != nil {
		s.Marks = w.marks
	}
	return s
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
			in.measure(s.Delta.Object, s.Delta.Type == delta.Deleted, s.Tree, c)
		}
	}
}

// evaluate adds to c what the step does to the rules, and to the record.
func (in *intake) evaluate(s source.Step, c *evaluate.Change) {
	d := s.Delta
	if s.Round == nil {
		defer in.note(d, c)
	}
	in.now = in.clock.Now()
	step := evaluate.Step{Delta: d, Tree: s.Tree, Round: s.Round, Gap: s.Gap, Now: in.now}
	switch {
	case in.learns.resuming.isPart(d):
		in.lastOf(step, c)
	case s.Saved != nil:
		in.returned(step, s.Saved, c)
	case s.Round == nil && in.learns.owesAny(d.Object.Key()):
		in.catchUpStep(step, c)
	default:
		if in.knowsOwn {
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
	for _, i := range in.timed {
		if mark := in.evaluator.Mark(i, c.Put, c); !mark.IsZero() {
			recorded := in.waits[i].recorded(mark, in.clock.Now())
			c.Inside = append(c.Inside, recorded.String())
		}
	}
}

// commit applies the change that o causes in one cut: the lanes take their matches, and the state
// takes its records. Within the cut nothing is evaluated, logged or waited for. commit reports the
// change afterwards. o is nil if only the position moves.
func (in *intake) commit(c *evaluate.Change, o *object.Object) {
	for i := range c.Matches {
		in.rules[c.Matches[i].Rule].stamp(&c.Matches[i].Delta)
	}
	for i := range c.Declined {
		in.rules[c.Declined[i].Rule].stamp(&c.Declined[i].Delta)
	}
	if !c.IsEmpty() {
		in.apply(c)
	}
	in.applyMeasured(c)
	in.report(c, o)
}

// apply does the work of commit, as one cut.
func (in *intake) apply(c *evaluate.Change) {
	if in.record != nil {
		in.record.store.Begin()
		defer in.record.store.End()
	}
	for i := range c.Matches {
		in.offer(&c.Matches[i], c)
	}
	if in.mark(c) {
		in.informer.Wake()
	}
	in.record.apply(c, in.learns.resuming)
}

// offer offers a match to its lane, if it goes on there. If that panics, which only a defect of
// informd can cause, the match becomes a dead letter, and counts as a failure of the rule. The
// matches of other rules go on.
func (in *intake) offer(m *evaluate.Match, c *evaluate.Change) {
	defer func() {
		if p := recover(); p != nil {
			letter := in.unqueued(m)
			evicted, _ := in.dead.Add(letter) // which never fails
			err := &unqueuedError{p, debug.Stack(), letter.ID, evicted}
			c.Failures = append(c.Failures, evaluate.Failure{Rule: m.Rule, Err: err})
		}
	}()
	r := in.rules[m.Rule]
	switch goesOn := in.count(m); {
	case m.Undecided:
		r.trails.changes.Add(m.Delta, trail.Undecided, in.now)
		r.lane.Offer(m.Match)
	case !goesOn:
		r.matched(m.Delta, trail.ByCount)
	case r.OnlyMeasures():
		r.matched(m.Delta, trail.Selected)
	default:
		m.IsOwn = r.lane.Offer(m.Match) // which calls Matched
	}
}

// count counts a match, and reports whether it goes on to its lane. A match that counts, there or in
// a metric, and that the rule may have made itself becomes undecided: it counts once that has turned
// out.
func (in *intake) count(m *evaluate.Match) (goesOn bool) {
	r := in.rules[m.Rule]
	if m.Undecided || m.Count == nil && m.Samples == nil {
		return true
	}
	if m.Version != "" {
		switch isOwn, mayBe := r.lane.Owns(m.Match); {
		case isOwn:
			return true // the lane drops it
		case mayBe:
			m.Undecided, m.Payload = true, nil
			return true
		}
	}
	return m.Count == nil || r.counting.add(m.Delta, *m.Count, in.clock.Now())
}

// unqueued returns the dead letter of a match that could not be queued.
func (in *intake) unqueued(m *evaluate.Match) delivery.Letter {
	r, now := in.rules[m.Rule], in.clock.Now()
	return delivery.Letter{
		ID: m.Delta.ID(r.Name), Rule: r.Name, Handler: r.handlerName(),
		Resource: handler.Resource(r.Source.Resource), Key: m.Delta.Key(),
		Reason:       "informd panicked while it queued the event: please report this",
		Confidential: r.preparer.IsConfidential(), Plain: true,
		Since: now, Died: now, Delta: m.Delta, Payload: m.Payload,
	}
}

// unqueuedError is a panic while a match was queued.
type unqueuedError struct {
	what    any
	stack   []byte
	id      string            // of the event, which is a dead letter
	evicted []delivery.Letter // by that letter
}

func (e *unqueuedError) Error() string { return fmt.Sprintf("panic while it was queued: %T", e.what) }

// report remembers and counts what rules made of the change that o causes, and logs its failures.
func (in *intake) report(c *evaluate.Change, o *object.Object) {
	in.noteDeclined(c)
	for i := range c.Matches {
		m := &c.Matches[i]
		r := in.rules[m.Rule]
		if !m.Undecided && !m.IsOwn {
			counted(r.preparer.counters, m.Samples, m.Delta.Key())
		}
		r.failures.add(r.counting.full(), delta.Key{})
	}
	for _, f := range c.Failures {
		failures := in.rules[f.Rule].failures
		isUndecided := func(m evaluate.Match) bool { return m.Rule == f.Rule && m.Undecided }
		if slices.ContainsFunc(c.Matches, isUndecided) { // its delivery evaluates it again
			failures.addSeen(f.Err, o)
		} else {
			failures.addOn(f.Err, o)
		}
	}
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
	in.measureLater(o)
}

func (in *intake) isSecret() bool { return in.planned.Resource == secrets }

// latest returns the intake that has taken the place of in, or in.
func (in *intake) latest() *intake { return in.present.intake }

func (in *intake) step(o *object.Object) evaluate.Step {
	in.now = in.clock.Now()
	return evaluate.Step{Delta: delta.Delta{Type: delta.Synced, Object: o}, Now: in.now}
}
