package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/plugins/handler"
)

// Handler delivers the events of one Handler manifest.
type Handler interface {
	handler.Handler
	// Ready blocks until the handler can take an event, or ctx ends.
	Ready(ctx context.Context) error
	// Limit returns how many events the handler takes at once, at least 1. The number may change.
	// isProbe is what dispatch.Recipient says.
	Limit() (n int, isProbe bool)
	// Grown returns a channel that delivers a token when Limit has grown, other than by an answer.
	Grown() <-chan struct{}
}

// Cluster says how to reach the API server.
type Cluster struct {
	Config    *rest.Config
	HTTP      *http.Client // authenticates with Config's credentials: see rest.HTTPClientFor
	Discovery discovery.DiscoveryInterface
}

// Options configure an Engine. The zero Options work.
type Options struct {
	Logger *slog.Logger
	// Clock tells the time that is recorded, compared and shown. nil means the system's.
	Clock clock.PassiveClock
	// Delivered, if not nil, is called after every attempt at a delivery, concurrently. It must not
	// block.
	Delivered func(dispatch.Attempt)
	// Acted, if not nil, is called after every action, concurrently. It must not block.
	Acted func(action.Done)
	// DryRun logs what actions would change instead of performing them. It asks the API server for
	// a dry run of each, and logs content of objects, but of no Secret.
	DryRun bool
	// State keeps objects and deliveries over restarts. Run runs it, and closes it at the end. If
	// nil, nothing is kept.
	State *state.Store
	// DrainTimeout is how long deliveries in flight may take to end at shutdown. 0 means the
	// dispatcher's default, 30 seconds.
	DrainTimeout time.Duration
	// Stepping makes an Engine that a Stepper drives in place of Run; nil otherwise. It then sends
	// no request to the cluster.
	Stepping *Stepping
}

// Engine runs one plan. It has more than a dozen fields because all parts of the engine meet here.
// New sets them all; later only restored and ended change.
type Engine struct {
	log         *slog.Logger
	clock       clock.PassiveClock
	informers   *source.Informers
	sources     []*runningSource
	rules       []*runningRule
	dispatchers []*dispatcher
	acting      *acting
	intakes     []*intake
	waiting     []*waiting
	dead        *dispatch.LetterBox
	store       *state.Store // nil if nothing is kept
	stepping    *Stepping    // nil if Run drives the engine
	server      string       // the API server's address
	restored    atomic.Bool  // the saved state has been loaded
	// ended says that operators' requests are refused. It is set before the state's last write
	// begins, and read within a cut. So that write has every request that was accepted.
	ended atomic.Bool
}

type runningSource struct {
	*plan.Source
	view     *source.Source
	failures []*failures // of its indexes; other sources may share them
}

type dispatcher struct {
	*dispatch.Dispatcher
	name string
}

// New prepares a plan to run. It asks the cluster for nothing and calls no handler; Run does.
// handlers has one Handler for each handler of the plan. An error names what is missing or cannot
// be used.
func New(p *plan.Plan, cluster Cluster, handlers map[string]Handler, o Options) (*Engine, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	options := source.Options{Logger: o.Logger, Clock: o.Clock}
	all, err := source.New(cluster.Config, cluster.HTTP, cluster.Discovery, options)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		log: o.Logger, clock: o.Clock, informers: all, store: o.State, stepping: o.Stepping,
		server: cluster.Config.Host,
	}
	var letters dispatch.LetterBoxOptions
	if o.State != nil {
		letters.Store = letterStore{o.State, e}
	}
	e.dead = dispatch.NewLetterBox(letters)
	informers, err := e.addInformers(p)
	if err != nil {
		return nil, err
	}
	if e.acting, err = newActing(cluster, o); err != nil {
		return nil, err
	}
	byName, err := e.addDispatchers(p, handlers, o)
	if err != nil {
		return nil, err
	}
	for _, r := range p.Rules {
		e.addRule(r, byName[r.Handler], configured(p, r.Handler))
	}
	for _, planned := range p.Informers {
		in := e.newIntake(planned, informers[planned])
		e.intakes = append(e.intakes, in)
		e.wait(in)
	}
	return e, nil
}

// addInformers makes the informers with their indexes, and the sources as views of them.
func (e *Engine) addInformers(p *plan.Plan) (map[*plan.Informer]*source.Informer, error) {
	informers := make(map[*plan.Informer]*source.Informer, len(p.Informers))
	indexed := make(map[*plan.Informer]map[string]*failures, len(p.Informers))
	for _, planned := range p.Informers {
		informers[planned] = e.informers.Informer(source.Selection(planned.Selection))
		informers[planned].Keep(planned.Keep, planned.View)
		indexed[planned] = make(map[string]*failures)
	}
	for _, s := range p.Sources {
		running := &runningSource{Source: s}
		members := make([]*source.Informer, 0, len(s.Informers))
		for _, planned := range s.Informers {
			members = append(members, informers[planned])
			for own, name := range s.Indexes {
				if indexed[planned][name] == nil {
					failures := newFailures(e.log.With("source", s.Name, "index", own), e.clock)
					err := informers[planned].AddIndexers(map[string]source.Index{
						name: index(planned.Indexes[name], failures),
					})
					if err != nil {
						return nil, fmt.Errorf("source %q: %w", s.Name, err)
					}
					indexed[planned][name] = failures
				}
				// two names may belong to one index
				if f := indexed[planned][name]; !slices.Contains(running.failures, f) {
					running.failures = append(running.failures, f)
				}
			}
		}
		running.view = source.NewSource(s.Name, members, s.Indexes)
		e.sources = append(e.sources, running)
	}
	for _, planned := range p.Informers {
		var names []string
		for _, s := range p.Sources {
			if slices.Contains(s.Informers, planned) {
				names = append(names, s.Name)
			}
		}
		informers[planned].NameSources(names...)
	}
	return informers, nil
}

func (e *Engine) addDispatchers(
	p *plan.Plan, handlers map[string]Handler, o Options,
) (map[string]*dispatch.Dispatcher, error) {
	byName := make(map[string]*dispatch.Dispatcher, len(p.Handlers))
	for _, h := range p.Handlers {
		implementation := handlers[h.Name]
		if implementation == nil {
			return nil, fmt.Errorf("handler %q: no Handler was given", h.Name)
		}
		byName[h.Name] = e.addDispatcher(dispatch.Recipient{
			Name: h.Name, Handler: implementation,
			Ready: implementation.Ready, Limit: implementation.Limit, Grown: implementation.Grown(),
			Concurrency: h.Concurrency, Retry: retry(h),
		}, e.acting.of(h, e.rule), o)
	}
	if slices.ContainsFunc(p.Rules, func(r *plan.Rule) bool { return r.Handler == "" }) {
		itself := dispatch.Recipient{Name: OwnActions, Concurrency: ownActions}
		byName[""] = e.addDispatcher(itself, e.acting.ofRules(e.rule), o)
	}
	return byName, nil
}

// OwnActions is the handler name that reports use for the actions a rule performs itself. No
// manifest can have it.
const OwnActions = "(actions)"

// ownActions bounds how many rules' own actions run at once.
const ownActions = 16

func (e *Engine) addDispatcher(h dispatch.Recipient, a *actor, o Options) *dispatch.Dispatcher {
	options := dispatch.Options{
		Logger: o.Logger, Clock: o.Clock, Actor: a,
		Attempted: o.Delivered, DrainTimeout: o.DrainTimeout,
	}
	if o.State != nil {
		options.Journal = o.State
	}
	o.Stepping.step(&options)
	d := dispatch.New(h, o.Stepping.letters(e.dead), options)
	e.dispatchers = append(e.dispatchers, &dispatcher{d, h.Name})
	return d
}

func retry(h config.Handler) dispatch.Retry {
	r := h.Retry
	return dispatch.Retry{Attempts: r.Attempts, Backoff: r.Backoff, MaxBackoff: r.MaxBackoff}
}

// configured returns a handler of the plan. A rule may only have actions and no handler; for it,
// configured returns the zero Handler.
func configured(p *plan.Plan, name string) config.Handler {
	for _, h := range p.Handlers {
		if h.Name == name {
			return h
		}
	}
	return config.Handler{}
}

func (e *Engine) addRule(r *plan.Rule, to *dispatch.Dispatcher, h config.Handler) {
	failures := newFailures(e.log.With("rule", r.Name), e.clock)
	p := e.newPreparer(r, h, failures)
	running := &runningRule{
		Rule: r, preparer: p, view: p.view, others: p.others, caches: p.Changes, failures: failures,
	}
	options := dispatch.LaneOptions{
		Every: r.Every, Preparer: p,
		ReadsChange: r.Payload.ReadsChange(), Attaches: len(r.Attached) > 0,
	}
	e.stepping.keepAll(&options)
	e.addActions(running, h, &options)
	running.memory = memory{
		store: e.store, rule: r.Name, resource: running.resource(), where: running.membership(),
	}
	if e.store != nil {
		lane := e.store.Lane(r.Name, state.LaneOptions{Secret: p.IsSecret()})
		running.laneStore = &laneStore{lane, p}
		options.Store = running.laneStore
	}
	if len(r.Prune) > 0 {
		limit := rate.NewLimiter(looksPerSec, looksPerSec)
		running.orphans = &orphans{rule: running, engine: e, limit: limit}
	}
	running.lane = to.Lane(r.Name, handler.Resource(r.Source.Resource), options)
	e.rules = append(e.rules, running)
}

func (e *Engine) view(of *plan.Source) *source.Source {
	for _, s := range e.sources {
		if s.Source == of {
			return s.view
		}
	}
	return nil
}

// Run watches, evaluates and delivers until ctx ends. Then it takes no more changes, and lets
// deliveries in flight end within Options.DrainTimeout. It returns nil when every goroutine that it
// started has ended.
//
// With a state, Run first waits until the API server has identified the cluster. If the state
// belongs to that cluster, Run resumes from it. It returns an error if the cluster cannot be
// identified. Run is called once.
func (e *Engine) Run(ctx context.Context) error {
	err := e.restore(ctx)
	stop := e.write(ctx)
	if err == nil {
		e.restored.Store(true)
		for _, in := range e.changed() {
			in.tellChanged()
		}
		err = e.follow(ctx)
	}
	e.ended.Store(true)
	return errors.Join(err, stop())
}

// write runs the state until stop is called. stop returns when everything is written.
func (e *Engine) write(ctx context.Context) (stop func() error) {
	if e.store == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var writing errgroup.Group
	writing.Go(func() error { return e.store.Run(ctx) })
	return func() error {
		cancel()
		return writing.Wait()
	}
}

// changed returns the intakes with rules whose where has changed since the state was saved.
func (e *Engine) changed() (out []*intake) {
	for _, in := range e.intakes {
		if in.resuming != nil && len(in.resuming.changed) > 0 {
			out = append(out, in)
		}
	}
	return out
}

// follow is the part of Run after the state was restored.
func (e *Engine) follow(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, in := range e.changed() {
		changed := in.resuming.changed
		group.Go(func() error {
			in.release(ctx, changed)
			return nil
		})
	}
	group.Go(func() error { return e.informers.Run(ctx) })
	for _, w := range e.waiting {
		group.Go(func() error {
			w.run(ctx)
			return nil
		})
	}
	for _, r := range e.rules {
		if r.orphans != nil {
			group.Go(func() error {
				r.orphans.run(ctx)
				return nil
			})
		}
	}
	for _, d := range e.dispatchers {
		group.Go(func() error { return d.Run(ctx) })
	}
	err := group.Wait()
	undelivered := 0
	for _, r := range e.rules {
		stats := r.lane.Stats()
		undelivered += stats.Waiting + stats.Away
		r.lane.Close()
	}
	switch {
	case undelivered > 0 && e.store != nil:
		e.log.Info("waiting deliveries are kept for the next start", "undelivered", undelivered)
	case undelivered > 0:
		e.log.Warn("waiting deliveries are lost: there is no state directory",
			"undelivered", undelivered)
	}
	return err
}

// Source returns the cache of a source, with its indexes.
func (e *Engine) Source(name string) (view *source.Source, ok bool) {
	for _, s := range e.sources {
		if s.Name == name {
			return s.view, true
		}
	}
	return nil, false
}
