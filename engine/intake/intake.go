package intake

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/due"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/gauges"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/rounds"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/state/steps"
	"github.com/informd/informd/engine/timing"
)

// Intake consumes the steps of one informer. It has each step evaluated for the informer's rules,
// and commits the change. It implements source.Consumer.
//
// The informer calls Take, CaughtUp, Tick and what is about rounds one at a time, with its own lock
// held. That lock guards all fields that change, but for some of line. Other methods say when they
// may be called. Those that do not are for who builds, restores or reloads a plan, on one
// goroutine.
type Intake struct {
	Planned *plan.Informer // in the plan
	*tutor
	// before is the intake of the same informer whose place this one is to take, until it does.
	before *Intake
}

// line is what the intakes of one informer share. Each takes the place of the one before it. A
// stale reference to one of them leads to the latest, and keeps none in between alive.
type line struct {
	now *Intake // the one that the informer has; guarded by the informer's lock
	// isDropped says that a reload has ended the informer; guarded by its lock.
	isDropped bool
	// indexed has the failures of the informer's indexes, by name. Only who builds a plan uses it.
	indexed map[string]*live.Failures
	isNew   bool // the informer has not begun; only for who builds or reloads
	careful careful
}

// Options are what all intakes of an engine have in common.
type Options struct {
	Clock     clock.PassiveClock
	Informers *source.Informers
	Moments   *rounds.Moments
	Store     *state.Store        // nil: nothing is kept
	Dead      *dispatch.LetterBox // gets matches that cannot be queued
	// Turn is how long a turn over objects takes at most, for example of rules that catch up. 0
	// means timing.Turn.
	Turn time.Duration
	// IsStepped says that a Stepper drives the engine, so nothing comes in turns.
	IsStepped bool
	// Appeared is called with the name of each namespace that is created, if a source watches
	// namespaces. It must not block.
	Appeared func(namespace string)
	// Steps notes which steps are under way. nil notes nothing.
	Steps *steps.Marks
	// Asides gets the changes that are set aside. nil gets nothing.
	Asides *Asides
}

// namespaces is the resource of namespaces.
var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// New returns the intake of an informer, without rules. before is that of the informer so far, or
// nil: then New makes the informer.
func New(o Options, planned *plan.Informer, before *Intake) *Intake {
	o.Turn = cmp.Or(o.Turn, timing.Turn)
	in := &Intake{Planned: planned, before: before, tutor: &tutor{judge: &judge{
		ID: resume.InformerID(planned.Selection, planned.Fixed != nil), options: o,
		learns: newLearning(planned.Resource == object.Secrets),
	}}}
	in.sinks.offering, in.sinks.learns = offering{clock: o.Clock, dead: o.Dead}, &in.learns
	if before != nil {
		in.Informer, in.line, in.sinks.record = before.Informer, before.line, before.sinks.record
		in.sinks.informer = in.Informer
		return in
	}
	in.line = &line{now: in, indexed: make(map[string]*live.Failures), isNew: true}
	selection := planned.Selection
	if planned.Fixed != nil {
		in.Informer = o.Informers.Fixed(selection, planned.Fixed)
	} else {
		in.Informer = o.Informers.Informer(selection)
	}
	in.Informer.Keep(planned.Keep, planned.View)
	in.sinks.record = newRecord(o.Store, in.ID, planned, in.Informer)
	in.sinks.informer = in.Informer
	return in
}

// Bind sets the rules. It is called before the intake is at work.
func (in *Intake) Bind(rules []*live.Rule) {
	old := new(object.Paths)
	var bindings []evaluate.Binding
	for _, r := range rules {
		old.Union(r.OldPaths())
		in.Rules = append(in.Rules, r)
		in.sinks.offering.add(r)
		in.sinks.waits.Add(&r.Rule.Rule, &r.Timed, in.options.Clock.Now())
		bindings = append(bindings, evaluate.Binding{
			Rule: &r.Rule.Rule, ID: r.ID, Caches: r.Preparer.Changes, KnowsOwn: r.Own != nil,
			Rounds: r.Rounds, OnlyInRounds: r.OnlyInRounds,
		})
	}
	scope := evaluate.NewScope(object.NewDecoder(in.Planned.View), object.NewDecoder(old))
	in.evaluator = evaluate.New(bindings, in.standing, scope)
	in.Rounds = newRounds(in.Planned, in.judge)
}

// Take implements source.Consumer. Whatever panics, the step is recorded: the informer counts it as
// taken.
func (in *Intake) Take(s source.Step) {
	in.sinks.record.pace()
	if s.IsNew() {
		in.learns.came(s.Delta.Object)
	}
	if s.Delta.Object != nil {
		in.turnsBefore(s)
	}
	if s.Withdrawn {
		in.comeAnew()
	}
	var part *held
	if s.Delta.Object != nil && len(in.line.careful.held) > 0 {
		var goesOn bool
		if s, part, goesOn = in.sift(s); !goesOn {
			return
		}
	}
	in.take(s, part)
}

// take does the work of Take for a step that is not set aside. part is nil, or the part of the
// object that rules saw last.
func (in *Intake) take(s source.Step, part *held) {
	if o := s.Delta.Object; o != nil {
		kind := steps.Change
		if s.Round != nil {
			kind = steps.Round
		}
		in.line.careful.slot.Begin(kind, o.Key(), o.ResourceVersion())
		defer in.line.careful.passed(kind, o.Key())
	}
	c := in.sinks.begin()
	in.line.careful.move(s, c)
	defer in.sinks.commit(c, s.Delta.Object)
	if s.Delta.Object != nil {
		in.evaluate(s, part, c)
		if s.Round == nil {
			in.sinks.gauges.Measure(s.Delta.Object, s.Delta.Type == delta.Deleted, s.Tree, c)
		}
		if s.Delta.Type == delta.Added && s.Round == nil && in.Planned.Resource == namespaces {
			in.options.Appeared(s.Delta.Object.Name())
		}
	}
}

// evaluate adds to c what the step does to the rules, and to the record. part is that of take.
func (in *Intake) evaluate(s source.Step, part *held, c *evaluate.Change) {
	d := s.Delta
	if s.Round == nil {
		defer in.note(d, c)
	}
	now := in.sinks.offering.begin()
	step := evaluate.Step{Delta: d, Tree: s.Tree, Round: s.Round, Gap: s.Gap, Now: now}
	switch {
	case part != nil:
		in.fromPart(step, part, c)
	case in.learns.resuming.isPart(d):
		in.lastOf(step, c)
	case s.Saved != nil:
		in.returned(step, s.Saved, c)
	case s.Round == nil && in.learns.owesAny(d.Object):
		in.catchUpStep(step, c)
	default:
		if in.sinks.offering.knowsOwn {
			step.Version = action.VersionOf(d)
		}
		in.evaluator.Evaluate(step, c)
	}
}

// SetID makes the intake use another id of a rule, if it has the rule. It is called before any
// step.
func (in *Intake) SetID(r *live.Rule, id string) {
	if i := slices.Index(in.Rules, r); i >= 0 {
		in.evaluator.SetID(i, id)
	}
}

// AddIndex gives the informer an index of its plan, unless it has it, and returns the failures of
// that index. newFailures makes them.
func (in *Intake) AddIndex(
	name string, newFailures func() *live.Failures,
) (failures *live.Failures, err error) {
	if failures = in.line.indexed[name]; failures != nil {
		return failures, nil
	}
	failures = newFailures()
	err = in.Informer.AddIndexers(map[string]source.Index{
		name: live.NewIndex(in.Planned.Indexes[name], failures),
	})
	if err == nil {
		in.line.indexed[name] = failures
	}
	return failures, err
}

// Tick implements source.Consumer. It has rules catch up, makes members of the objects that have
// waited long enough, and measures objects for gauges.
func (in *Intake) Tick(began time.Time, get func(key string) *object.Object) (again time.Time) {
	if len(in.learns.catchUps) > 0 {
		again = in.catchUpSome(began, get)
		began = in.options.Clock.Now()
	}
	again = timing.Earlier(again, in.sinks.waits.Elapse(due.Turn{
		Began: began, Now: in.options.Clock.Now, Informer: in.Informer, Get: get, Decide: in.elapse,
	}))
	now := in.options.Clock.Now
	return timing.Earlier(again, in.sinks.gauges.Turn(now(), now, get))
}

// AddGauges gives the intake its gauges, once its rules are set. metrics and rules are by their
// parts of the plan.
func (in *Intake) AddGauges(
	metrics map[*plan.Metric]*live.Metric, rules map[*plan.Rule]*live.Rule,
) {
	if len(in.Planned.Gauges) == 0 {
		return
	}
	in.sinks.gauges = gauges.NewSet(gauges.Rules{
		Evaluator: in.evaluator, Hears: in.hears, HearsAll: in.hearsAll,
	})
	for _, planned := range in.Planned.Gauges {
		as := evaluate.Gauge{Metric: &planned.Metric, Rule: -1}
		if planned.Rule != nil {
			as.Rule = slices.Index(in.Rules, rules[planned.Rule])
		}
		isTimed := planned.Rule != nil && planned.Rule.IsTimed()
		in.sinks.gauges.Add(metrics[planned].Gauge, as, isTimed)
	}
}

// Lacks reports whether a rule has not seen an object, or not as it is: the rule takes no steps
// yet, or the intake knows only a part of the object. o may be nil. Lacks is called between two
// steps.
func (in *Intake) Lacks(rule int, o *object.Object) bool {
	return in.learns.resuming.hasPart(o) || in.standing(rule).Deaf
}

// Mark returns since when or until when an object waits to become a member of a rule, or the zero
// time. It is called between two steps.
func (in *Intake) Mark(rule int, o *object.Object) time.Time { return in.sinks.waits.Mark(rule, o) }
