package running

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"k8s.io/utils/clock"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/acting"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/tally"
	"github.com/informd/informd/engine/targets"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// Parts are what all works of an engine are made of. They do not change.
type Parts struct {
	Logger   *slog.Logger
	Clock    clock.PassiveClock
	Store    *state.Store // nil: nothing is kept
	Acting   *acting.Acting
	Targets  *targets.Table // of the rules' own actions
	Heirs    *Heirs         // of targets
	Trail    *trail.Counter
	Present  *Present
	Intake   intake.Options
	Dispatch dispatch.Options            // of all dispatchers; each has an actor of its own
	Letters  dispatch.DeadLetters        // where dead letters go
	Adapt    func(*dispatch.LaneOptions) // adapts the options of each lane
	// Failed returns what gets the failures of a rule, an index or a metric, which attrs name.
	Failed func(attrs []any) func(live.ExpressionFailure)
}

// Build makes the work of a plan. It shares with before, which is nil at the start, what is the
// same in both. handlers has one Handler for each handler of the plan. What runs is not touched:
// if Build fails, nothing has changed.
func (p *Parts) Build(
	of *plan.Plan, handlers map[string]live.Handler, before *Work,
) (*Work, error) {
	isStart := before == nil
	if isStart {
		before = new(Work)
	}
	b := &builder{
		Parts: p, plan: of, handlers: handlers, before: before, next: new(Work), isStart: isStart,
		sources: make(map[*plan.Source]*live.Source),
		rules:   make(map[*plan.Rule]*live.Rule),
		intakes: make(map[*plan.Informer]*intake.Intake),
		metrics: make(map[*plan.Metric]*live.Metric),
	}
	for _, h := range of.Handlers {
		if handlers[h.Name] == nil {
			return nil, fmt.Errorf("handler %q: no Handler was given", h.Name)
		}
	}
	if err := b.addIntakes(); err != nil {
		p.Abandon(b.next)
		return nil, err
	}
	b.addDispatchers()
	b.addMetrics()
	for _, r := range of.Rules {
		b.addRule(r)
	}
	for _, in := range b.next.Intakes {
		b.bind(in)
	}
	b.next.NoteSecrets(of.Handlers)
	return b.next, nil
}

// Abandon stops the new informers of a work that nobody will take up.
func (p *Parts) Abandon(w *Work) {
	for _, in := range w.Intakes {
		if in.IsNew() {
			p.Intake.Informers.Stop(in.Informer)
		}
	}
}

// builder builds a work.
type builder struct {
	*Parts
	plan     *plan.Plan
	handlers map[string]live.Handler
	before   *Work
	next     *Work
	isStart  bool

	// by their parts of the plan
	sources map[*plan.Source]*live.Source
	rules   map[*plan.Rule]*live.Rule
	intakes map[*plan.Informer]*intake.Intake
	metrics map[*plan.Metric]*live.Metric
}

// addIntakes makes an intake for each informer, with its indexes, and the sources as views of the
// informers. An intake of an informer that stays is a new one for the same informer.
func (b *builder) addIntakes() error {
	for _, planned := range b.plan.AllInformers() {
		in := intake.New(b.Intake, planned, b.before.Intake(planned))
		b.intakes[planned] = in
		b.next.Intakes = append(b.next.Intakes, in)
	}
	for _, s := range slices.Concat(b.plan.Sources, b.plan.Alone) {
		running := &live.Source{Source: s}
		members := make([]*source.Informer, 0, len(s.Informers))
		for _, planned := range s.Informers {
			in := b.intakes[planned]
			members = append(members, in.Informer)
			for own, name := range s.Indexes {
				f, err := in.AddIndex(name, func() *live.Failures {
					return b.newFailures("source", s.Name, "index", own)
				})
				if err != nil {
					return fmt.Errorf("source %q: %w", s.Name, err)
				}
				if !slices.Contains(running.Failures, f) { // two names may belong to one index
					running.Failures = append(running.Failures, f)
				}
			}
		}
		running.View = source.NewSource(s.Name, members, s.Indexes)
		if same := b.same(running); same != nil {
			running = same
		}
		b.sources[s] = running
		b.next.Sources = append(b.next.Sources, running)
	}
	for _, planned := range b.plan.Informers {
		if in := b.intakes[planned]; in.IsNew() {
			in.Informer.NameSources(sourceNames(b.next, in.Informer)...)
		}
	}
	return nil
}

// same returns the source of before that does the same as this one, or nil.
func (b *builder) same(s *live.Source) *live.Source {
	for _, old := range b.before.Sources {
		if old.Digest == s.Digest && slices.Equal(old.View.Informers(), s.View.Informers()) {
			return old
		}
	}
	return nil
}

func (b *builder) addDispatchers() {
	for _, h := range b.plan.Handlers {
		implementation, digest := b.handlers[h.Name], plan.DigestOf(h)
		old := b.before.dispatcher(h.Name)
		if old != nil && old.Digest == digest && old.Handler == implementation {
			b.next.Dispatchers = append(b.next.Dispatchers, old)
			continue
		}
		d := b.newDispatcher(dispatch.Recipient{
			Name: h.Name, Handler: implementation,
			Ready: implementation.Ready, Limit: implementation.Limit, Grown: implementation.Grown(),
			Concurrency: h.Concurrency, Retry: retry(h),
			IsDry: b.Dispatch.ActsDry && h.Builtin != "log", // the daemon runs no other
		}, b.Acting.ForHandler(h))
		d.Handler, d.Digest = implementation, digest
		b.next.Dispatchers = append(b.next.Dispatchers, d)
	}
	if !slices.ContainsFunc(b.plan.Rules, func(r *plan.Rule) bool { return r.Handler == "" }) {
		return
	}
	d := b.before.dispatcher("")
	if d == nil {
		itself := dispatch.Recipient{Name: live.OwnActions, Concurrency: ownActions}
		d = b.newDispatcher(itself, b.Acting.ForRules())
	}
	b.next.Dispatchers = append(b.next.Dispatchers, d)
}

// ownActions bounds how many rules' own actions run at once.
const ownActions = 16

func (b *builder) newDispatcher(h dispatch.Recipient, a dispatch.Actor) *live.Dispatcher {
	options := b.Dispatch
	options.Actor = a
	return &live.Dispatcher{Dispatcher: dispatch.New(h, b.Letters, options), Name: h.Name}
}

func retry(h config.Handler) dispatch.Retry {
	r := h.Retry
	return dispatch.Retry{Attempts: r.Attempts, Backoff: r.Backoff, MaxBackoff: r.MaxBackoff}
}

// configured returns a handler of the plan. A rule may only have actions and no handler; for it,
// configured returns the zero Handler.
func (b *builder) configured(name string) config.Handler {
	h, _ := b.plan.Handler(name)
	return h
}

// addRule adds a rule: the one of before if nothing has changed that it depends on.
func (b *builder) addRule(r *plan.Rule) {
	to, old := b.next.dispatcher(r.Handler), b.before.Predecessor(r)
	if old != nil && b.isSame(old, r, to) {
		b.rules[r] = old
		b.next.Rules = append(b.next.Rules, old)
		return
	}
	if old != nil && old.Resource() != object.ResourceName(r.Source.Resource) {
		old = nil // it is about other objects now: another rule of that name
	}
	running := b.newRule(r, to, old)
	b.rules[r] = running
	b.next.Rules = append(b.next.Rules, running)
}

// isSame reports whether a running rule does what r says, delivers to the same dispatcher and reads
// the same sources.
func (b *builder) isSame(old *live.Rule, r *plan.Rule, to *live.Dispatcher) bool {
	if old.Name != r.Name || old.Digest != r.Digest ||
		old.Dispatcher != to || old.OwnSource != b.sources[r.Source] {
		return false
	}
	return slices.EqualFunc(old.Preparer.Others, r.LooksInto, func(is *source.Source, s *plan.Source) bool {
		return is == b.sources[s].View
	})
}

// newRule makes a running rule. If old is not nil, a reload makes the new one take its place, and
// gives it its lane then.
func (b *builder) newRule(r *plan.Rule, to *live.Dispatcher, old *live.Rule) *live.Rule {
	h := b.configured(r.Handler)
	if old != nil && old.Rounds != nil && r.Rounds != nil && old.Rounds.String() == r.Rounds.String() {
		same := *r
		same.Rounds = old.Rounds // they go on
		r = &same
	}
	failures := b.newFailures("rule", r.Name)
	trails := live.NewTrails(b.Trail, len(b.plan.Rules), b.Clock.Now())
	if old != nil {
		trails = old.Trails
		failures.TakeOver(old.Failures)
		if r.Name == old.Name {
			failures = old.Failures
		}
	}
	p := b.newPreparer(r, h, failures, trails)
	p.Confidential = confidential(r, to)
	p.Counters = b.countersOf(r)
	running := &live.Rule{
		Occasion: new(atomic.Uint32),
		Rule:     r, ID: b.newID(r, old), Preparer: p, Failures: failures,
		OwnSource: b.sources[r.Source], Dispatcher: to, Before: old, Trails: trails,
	}
	if old == nil {
		running.Memory = live.NewMemory(b.Store, running)
	} else {
		running.Memory = old.Memory
	}
	options := dispatch.LaneOptions{
		Every: r.Every, Preparer: p,
		ReadsChange: r.Payload.ReadsChange(), Attaches: len(r.Attached) > 0,
		Changes: trails.Changes, Attempts: trails.Attempts, Matched: running.NoteSelected,
	}
	isCounted := r.Count != nil && old != nil && old.Count != nil && old.Count.Text() == r.Count.Text()
	if running.Tally = b.newTally(running.ID, r.Count); isCounted {
		running.Tally = old.Tally
	}
	if running.Tally != nil {
		options.Count = running.CountDecided
	}
	b.Adapt(&options)
	b.Acting.Configure(&options, running, h)
	if b.Store != nil {
		options.Store = running.KeepLane()
	}
	switch {
	case r.Group != nil:
		options.Gathering = running.Gathering(false)
	case old != nil && old.Gathers():
		options.Gathering = running.Gathering(true)
	}
	running.Pruning = b.newPruning(running, old)
	p.Pruning = running.Pruning
	if old != nil {
		running.Options = options
		return running
	}
	running.Lane = to.Lane(r.Name, handler.Resource(r.Source.Resource), options)
	running.Memory.Follow(running.Lane)
	return running
}

// bind gives an intake its rules, and has them wait for the other sources that they look into.
func (b *builder) bind(in *intake.Intake) {
	var rules []*live.Rule
	for _, r := range in.Planned.Rules {
		rules = append(rules, b.rules[r])
	}
	in.Bind(rules)
	in.AddGauges(b.metrics, b.rules)
	if b.isStart {
		all := func(*live.Rule) bool { return true }
		b.next.Waiting = append(b.next.Waiting, intake.WaitForOthers(in, all)...)
	}
}

// newPreparer returns the preparer of a rule whose events h handles.
func (b *builder) newPreparer(
	r *plan.Rule, h config.Handler, failures *live.Failures, trails live.Trails,
) *live.Preparer {
	own := b.sources[r.Source].View
	p := &live.Preparer{
		Recipe: prepare.New(r, func(name string) prepare.Source {
			if name == r.Source.Name {
				return own
			}
			return b.next.source(name).View
		}),
		Clock: b.Clock, View: own, Failures: failures, Trails: trails,
		MayAct: r.Actions != nil || len(h.Write) > 0,
	}
	for _, s := range r.LooksInto {
		p.Others = append(p.Others, b.sources[s].View)
	}
	return p
}

// newFailures returns the failures of a rule, an index or a metric. attrs name it in the log.
func (b *builder) newFailures(attrs ...any) *live.Failures {
	return live.NewFailures(b.Logger, b.Clock, b.Failed(attrs), attrs...)
}

// newTally returns what counts the matches of a rule, or nil if the rule has no count.
func (b *builder) newTally(id string, c *rule.Count) *tally.Tally {
	if b.Store == nil {
		return tally.New(id, c, nil)
	}
	return tally.New(id, c, b.Store)
}
