package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/prepare"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/tally"
	"github.com/informd/informd/plugins/handler"
)

// work is a plan at work: what runs for its sources, rules, handlers and informers. Once the engine
// has taken it up, its lists do not change: Reload makes another work, which shares with it
// everything that stays.
type work struct {
	sources     []*live.Source // those of rules without a source last
	rules       []*live.Rule
	dispatchers []*live.Dispatcher
	intakes     intake.Set
	waiting     []*intake.Waiting
	metrics     []*live.Metric // of manifests
}

// rule returns the rule with that name, or nil.
func (w *work) rule(name string) *live.Rule {
	for _, r := range w.rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// byID returns the rule with that id, or nil.
func (w *work) byID(id string) *live.Rule {
	for _, r := range w.rules {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// source returns the source with that name, or nil.
func (w *work) source(name string) *live.Source {
	for _, s := range w.sources {
		if s.Name == name && !s.IsRule() {
			return s
		}
	}
	return nil
}

// dispatcher returns that of a handler, or nil. "" means that of the rules' own actions.
func (w *work) dispatcher(handler string) *live.Dispatcher {
	for _, d := range w.dispatchers {
		if d.Name == handler || handler == "" && d.Handler == nil {
			return d
		}
	}
	return nil
}

// intake returns that of an informer with the selection of planned, or nil.
func (w *work) intake(planned *plan.Informer) *intake.Intake {
	for _, in := range w.intakes {
		isFixed := in.Planned.Fixed != nil
		if in.Planned.Selection == planned.Selection && isFixed == (planned.Fixed != nil) {
			return in
		}
	}
	return nil
}

// build makes the work of a plan. It shares with before, which is nil at the start, what is the
// same in both. handlers has one Handler for each handler of the plan. What runs is not touched:
// if build fails, nothing has changed.
func (e *Engine) build(p *plan.Plan, handlers map[string]live.Handler, before *work) (*work, error) {
	isStart := before == nil
	if isStart {
		before = new(work)
	}
	b := &builder{
		Engine: e, plan: p, handlers: handlers, before: before, next: new(work), isStart: isStart,
		sources: make(map[*plan.Source]*live.Source),
		rules:   make(map[*plan.Rule]*live.Rule),
		intakes: make(map[*plan.Informer]*intake.Intake),
		metrics: make(map[*plan.Metric]*live.Metric),
		intake: intake.Options{
			Clock: e.clock, Informers: e.informers, Moments: e.moments, Store: e.store, Dead: e.dead,
			Turn: e.options.catchUpTurn, IsStepped: e.stepping != nil,
		},
	}
	for _, h := range p.Handlers {
		if handlers[h.Name] == nil {
			return nil, fmt.Errorf("handler %q: no Handler was given", h.Name)
		}
	}
	if err := b.addIntakes(); err != nil {
		e.abandon(b.next)
		return nil, err
	}
	b.addDispatchers()
	b.addMetrics()
	for _, r := range p.Rules {
		b.addRule(r)
	}
	for _, in := range b.next.intakes {
		b.bind(in)
	}
	b.next.noteSecrets(p.Handlers)
	return b.next, nil
}

// sourceNames returns the names of the sources of a work that look at an informer.
func sourceNames(w *work, of *source.Informer) (names []string) {
	for _, s := range w.sources {
		if !s.IsRule() && slices.Contains(s.View.Informers(), of) {
			names = append(names, s.Name)
		}
	}
	return names
}

// keepsTooLittle reports whether an informer has to keep more of its objects for a plan.
func keepsTooLittle(in *intake.Intake, planned *plan.Informer) bool {
	return !resume.Covers(resume.Kept(in.Informer.Kept()), planned.Keep)
}

// widen makes informers that stay keep what a plan needs of their objects. To the rules that run,
// nothing changes.
func (w *work) widen(ctx context.Context, p *plan.Plan) error {
	for _, planned := range p.AllInformers() {
		in := w.intake(planned)
		if in == nil || !keepsTooLittle(in, planned) {
			continue
		}
		if err := in.Informer.Widen(ctx, planned.Keep); err != nil {
			state, reason := in.Informer.State()
			return fmt.Errorf("source %s has to keep more of its objects, and has not listed them "+
				"again yet (it is %s): reload again when it has: %w", strings.Join(sourceNames(w, in.Informer), ", "),
				strings.TrimSuffix(fmt.Sprintf("%v: %s", state, reason), ": "), err)
		}
	}
	return nil
}

// builder builds a work.
type builder struct {
	*Engine
	plan     *plan.Plan
	handlers map[string]live.Handler
	before   *work
	next     *work
	isStart  bool
	intake   intake.Options

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
		in := intake.New(b.intake, planned, b.before.intake(planned))
		b.intakes[planned] = in
		b.next.intakes = append(b.next.intakes, in)
	}
	for _, s := range slices.Concat(b.plan.Sources, b.plan.Alone) {
		running := &live.Source{Source: s}
		members := make([]*source.Informer, 0, len(s.Informers))
		for _, planned := range s.Informers {
			in := b.intakes[planned]
			members = append(members, in.Informer)
			for own, name := range s.Indexes {
				f, err := in.Index(name, func() *live.Failures {
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
		b.next.sources = append(b.next.sources, running)
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
	for _, old := range b.before.sources {
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
			b.next.dispatchers = append(b.next.dispatchers, old)
			continue
		}
		d := b.newDispatcher(dispatch.Recipient{
			Name: h.Name, Handler: implementation,
			Ready: implementation.Ready, Limit: implementation.Limit, Grown: implementation.Grown(),
			Concurrency: h.Concurrency, Retry: retry(h),
			IsDry: b.options.DryRun && h.Builtin != "log", // the daemon runs no other
		}, b.acting.of(h, b.maker))
		d.Handler, d.Digest = implementation, digest
		b.next.dispatchers = append(b.next.dispatchers, d)
	}
	if !slices.ContainsFunc(b.plan.Rules, func(r *plan.Rule) bool { return r.Handler == "" }) {
		return
	}
	d := b.before.dispatcher("")
	if d == nil {
		itself := dispatch.Recipient{Name: live.OwnActions, Concurrency: ownActions}
		d = b.newDispatcher(itself, b.acting.ofRules(b.maker))
	}
	b.next.dispatchers = append(b.next.dispatchers, d)
}

// ownActions bounds how many rules' own actions run at once.
const ownActions = 16

func (e *Engine) newDispatcher(h dispatch.Recipient, a *actor) *live.Dispatcher {
	o := &e.options
	options := dispatch.Options{
		Logger: o.Logger, Clock: o.Clock, AfterFunc: o.AfterFunc, Actor: a,
		Attempted: o.Delivered, DrainTimeout: o.DrainTimeout, ActsDry: o.DryRun,
	}
	if o.State != nil {
		options.Journal = o.State
	}
	o.Stepping.step(&options)
	return &live.Dispatcher{Dispatcher: dispatch.New(h, o.Stepping.letters(e.dead), options), Name: h.Name}
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
	to, old := b.next.dispatcher(r.Handler), b.before.became(r)
	if old != nil && b.isSame(old, r, to) {
		b.rules[r] = old
		b.next.rules = append(b.next.rules, old)
		return
	}
	if old != nil && old.Resource() != object.ResourceName(r.Source.Resource) {
		old = nil // it is about other objects now: another rule of that name
	}
	running := b.newRule(r, to, old)
	b.rules[r] = running
	b.next.rules = append(b.next.rules, running)
}

// isSame reports whether a running rule does what r says, delivers to the same dispatcher and reads
// the same sources.
func (b *builder) isSame(old *live.Rule, r *plan.Rule, to *live.Dispatcher) bool {
	if old.Name != r.Name || old.Digest != r.Digest || old.To != to || old.Own != b.sources[r.Source] {
		return false
	}
	return slices.EqualFunc(old.Preparer.Others, r.LooksInto, func(is *source.Source, s *plan.Source) bool {
		return is == b.sources[s].View
	})
}

// newRule makes a running rule. If old is not nil, the new one is to take its place; see succeed.
func (b *builder) newRule(r *plan.Rule, to *live.Dispatcher, old *live.Rule) *live.Rule {
	h := b.configured(r.Handler)
	if old != nil && old.Rounds != nil && r.Rounds != nil && old.Rounds.String() == r.Rounds.String() {
		same := *r
		same.Rounds = old.Rounds // they go on
		r = &same
	}
	failures := b.newFailures("rule", r.Name)
	trails := live.NewTrails(&b.trail, len(b.plan.Rules), b.clock.Now())
	if old != nil {
		trails = old.Trails
		failures.Continues(old.Failures)
		if r.Name == old.Name {
			failures = old.Failures
		}
	}
	p := b.newPreparer(r, h, failures, trails)
	p.Counters = b.countersOf(r)
	running := &live.Rule{
		Occasion: new(atomic.Uint32),
		Rule:     r, ID: b.newID(r, old), Preparer: p, Failures: failures,
		Own: b.sources[r.Source], To: to, Before: old, Trails: trails,
	}
	if old == nil {
		running.Memory = live.NewMemory(b.store, running)
	} else {
		running.Memory = old.Memory
	}
	options := dispatch.LaneOptions{
		Every: r.Every, Preparer: p,
		ReadsChange: r.Payload.ReadsChange(), Attaches: len(r.Attached) > 0,
		Changes: trails.Changes, Attempts: trails.Attempts, Matched: running.Selected,
	}
	isCounted := r.Count != nil && old != nil && old.Count != nil && old.Count.Text() == r.Count.Text()
	if running.Tally = b.newTally(running.ID, r.Count); isCounted {
		running.Tally = old.Tally
	}
	if running.Tally != nil {
		options.Count = running.CountDecided
	}
	b.stepping.keepAll(&options)
	b.addActions(running, h, &options)
	if b.store != nil {
		options.Store = running.KeepLane()
	}
	switch {
	case r.Group != nil:
		options.Gathering = running.Gathering(false)
	case old != nil && old.Gathers():
		options.Gathering = running.Gathering(true)
	}
	running.Pruning = newPruning(b.Engine, running, old)
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
		b.next.waiting = append(b.next.waiting, intake.WaitForOthers(in, all)...)
	}
}

// newPreparer returns the preparer of a rule whose events h handles.
func (b *builder) newPreparer(
	r *plan.Rule, h config.Handler, failures *live.Failures, trails live.Trails,
) *live.Preparer {
	e, own := b.Engine, b.sources[r.Source].View
	p := &live.Preparer{
		Recipe: prepare.New(r, func(name string) prepare.Source {
			if name == r.Source.Name {
				return own
			}
			return b.next.source(name).View
		}),
		Rule: r, Clock: e.clock, View: own, Failures: failures, Trails: trails,
		MayAct: r.Actions != nil || len(h.Write) > 0,
	}
	for _, s := range r.LooksInto {
		p.Others = append(p.Others, b.sources[s].View)
	}
	p.Confidential.Store(b.next.seesSecrets(r, h))
	p.Exists = func(ctx context.Context, key delta.Key) (bool, error) {
		return e.acting.executor.Exists(ctx, r.Source.Resource, key)
	}
	return p
}

// newFailures returns the failures of a rule, an index or a metric. attrs name it in the log.
func (b *builder) newFailures(attrs ...any) *live.Failures {
	return live.NewFailures(b.log, b.clock, b.stepping.failed(attrs), attrs...)
}

// newTally returns what counts the matches of a rule, or nil if the rule has no count.
func (e *Engine) newTally(id string, c *rule.Count) *tally.Tally {
	if e.store == nil {
		return tally.New(id, c, nil)
	}
	return tally.New(id, c, e.store)
}
