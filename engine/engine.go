package engine

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/acting"
	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rounds"
	"github.com/informd/informd/engine/running"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/state/steps"
	"github.com/informd/informd/engine/targets"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/plugins/handler"
)

// What runs for a part of the plan says it in these words.
type (
	// Handler delivers the events of one Handler manifest.
	Handler = live.Handler
	// ExpressionFailure is a failed evaluation of an expression.
	ExpressionFailure = live.ExpressionFailure
)

// OwnActions is the handler name that reports use for the actions a rule performs itself.
const OwnActions = live.OwnActions

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
	// AfterFunc calls a function once Clock has advanced by a time: deliveries wait with it. It
	// must not call it at once. nil means time.AfterFunc.
	AfterFunc func(time.Duration, func()) queue.Timer
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
	// Abort, when it is closed, ends deliveries in flight at once when Run ends. nil never does.
	Abort <-chan struct{}
	// GoneAfter is that of source.Options.
	GoneAfter time.Duration
	// Steps notes which steps are under way. nil notes nothing.
	Steps *steps.Marks
	// Suspects returns the changes in whose steps other replicas have died. Run calls it once, before
	// it follows anything. nil returns none.
	Suspects func(context.Context) []steps.Suspect
	// catchUpTurn is how long a turn of rules that catch up takes at most; 0 means timing.Turn. For
	// tests.
	catchUpTurn time.Duration
	// Epoch goes with each event that is handed over. It is zero if this informd never had any
	// replicas.
	Epoch handler.Epoch
	// Verify returns nil if this informd still leads. Actions ask before they change the cluster: see
	// acting.Options. nil means that it has no replicas.
	Verify func(context.Context) error
	// Stepping makes an Engine that a Stepper drives in place of Run; nil otherwise. It then sends
	// no request to the cluster.
	Stepping *Stepping
}

// suspects returns the changes in whose steps this informd and its replicas died.
func (o Options) suspects(ctx context.Context) []steps.Suspect {
	all := o.Steps.Suspects()
	if o.Suspects != nil {
		all = append(all, o.Suspects(ctx)...)
	}
	return all
}

// Engine runs a plan, and can change to another one: see Reload. Operators' questions and requests
// go to its Desk.
type Engine struct {
	*admin.Desk
	log       *slog.Logger
	store     *state.Store // nil if nothing is kept
	dead      *dispatch.LetterBox
	informers *source.Informers
	server    string                                // the API server's address
	stepping  *Stepping                             // nil if Run drives the engine
	steps     func(context.Context) []steps.Suspect // in which informd has died

	parts     running.Parts
	present   running.Present
	phase     running.Phase
	trail     trail.Counter
	tasks     tasks
	reloading sync.Mutex // held while the work changes
	// floor is the least occasion of a new rule. Run sets it before it follows anything; then it is
	// guarded by reloading.
	floor uint32
}

// New prepares a plan to run. It asks the cluster for nothing and calls no handler; Run does.
// handlers has one Handler for each handler of the plan. An error names what is missing or cannot
// be used.
func New(
	p *plan.Plan, cluster Cluster, handlers map[string]live.Handler, o Options,
) (*Engine, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	options := source.Options{
		Logger: o.Logger, Clock: o.Clock, GoneAfter: o.GoneAfter, IsReplicated: o.Verify != nil,
	}
	all, err := source.New(cluster.Config, cluster.HTTP, cluster.Discovery, options)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		log: o.Logger, store: o.State, informers: all, server: cluster.Config.Host, stepping: o.Stepping,
		steps: o.suspects,
	}
	var letters dispatch.LetterBoxOptions
	if o.State != nil {
		letters.Store = letterStore{o.State, &e.present}
	}
	e.dead = dispatch.NewLetterBox(letters)
	if e.parts, err = e.newParts(cluster, o); err != nil {
		return nil, err
	}
	e.Desk = admin.New(&e.parts, &e.phase, e.dead)
	e.phase.Loaded.Store(e.store == nil)
	next, err := e.parts.Build(p, handlers, nil)
	if err != nil {
		return nil, err
	}
	e.present.Take(next)
	for _, in := range next.Intakes {
		in.Consume()
	}
	return e, nil
}

// newParts returns what all works of the engine are made of.
func (e *Engine) newParts(cluster Cluster, o Options) (running.Parts, error) {
	var rows targets.Records
	if o.State != nil {
		rows = o.State
	}
	table, heirs := targets.New(rows), running.NewHeirs()
	act := acting.Options{
		Config: cluster.Config, HTTP: cluster.HTTP, Discovery: cluster.Discovery,
		Logger: o.Logger, Clock: o.Clock, Rule: e.present.Maker, Observer: o.Acted, DryRun: o.DryRun,
		Verify: o.Verify, Targets: table, State: live.Notes{Store: o.State, IsStepped: o.Stepping != nil},
		ByID: e.present.ByID, Inherit: heirs.Add, Watched: e.present.Watched,
	}
	if o.Stepping != nil {
		act.Virtual = o.Stepping.Cluster
		table.Exact()
	}
	acts, err := acting.New(act)
	if err != nil {
		return running.Parts{}, err
	}
	parts := running.Parts{
		Logger: o.Logger, Clock: o.Clock, Store: o.State,
		Acting: acts, Targets: table, Heirs: heirs, Trail: &e.trail, Present: &e.present,
		Intake: intake.Options{
			Clock: o.Clock, Informers: e.informers, Moments: rounds.NewMoments(o.Clock.Now),
			Store: o.State, Dead: e.dead, Turn: o.catchUpTurn, IsStepped: o.Stepping != nil,
			Appeared: heirs.Appear, Steps: o.Steps, Asides: new(intake.Asides),
		},
		Dispatch: dispatch.Options{
			Logger: o.Logger, Clock: o.Clock, AfterFunc: o.AfterFunc, Attempted: o.Delivered,
			DrainTimeout: o.DrainTimeout, Abort: o.Abort, ActsDry: o.DryRun, Epoch: o.Epoch,
		},
		Letters: o.Stepping.letters(e.dead), Adapt: o.Stepping.keepAll, Failed: o.Stepping.failed,
	}
	if o.State != nil {
		parts.Dispatch.Journal = o.State
	}
	o.Stepping.step(&parts.Dispatch)
	return parts, nil
}

// work returns the plan at work.
func (e *Engine) work() *running.Work { return e.present.Work() }

// rule returns the rule with that name, or nil.
func (e *Engine) rule(name string) *live.Rule { return e.work().Rule(name) }

// Run watches, evaluates and delivers until ctx ends. Then it takes no more changes, and lets
// deliveries in flight end within Options.DrainTimeout. It returns nil when every goroutine that it
// started has ended.
//
// With a state, Run first waits until the API server has identified the cluster. If the state
// belongs to that cluster, Run resumes from it. It returns an error if the cluster cannot be
// identified. Run is called once.
func (e *Engine) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { e.phase.Stopping.Store(true) })()
	undelivered := 0
	err := e.restore(ctx)
	stop := e.write(ctx)
	if err == nil {
		e.phase.Loaded.Store(true)
		undelivered = e.follow(ctx)
	}
	e.phase.Ended.Store(true)
	for _, in := range e.work().Intakes {
		in.EndMarks()
	}
	err = errors.Join(err, stop())
	e.logUndelivered(undelivered)
	return err
}

// logUndelivered says what becomes of deliveries that wait. It is called when the state's last
// write is over.
func (e *Engine) logUndelivered(n int) {
	isAborted := false
	select {
	case <-e.parts.Dispatch.Abort:
		isAborted = true
	default:
	}
	switch {
	case n == 0:
	case isAborted:
		e.log.Info("waiting deliveries are left to whoever leads now", "undelivered", n)
	case e.store == nil:
		e.log.Warn("waiting deliveries are lost: there is no state directory", "undelivered", n)
	case e.store.IsWritten():
		e.log.Info("waiting deliveries are kept for the next start", "undelivered", n)
	default:
		e.log.Warn("waiting deliveries may be lost: the end of the state could not be written, "+
			"so the next start goes on from what is on disk", "undelivered", n)
	}
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

// follow is the part of Run after the state was restored. It returns how many deliveries wait at
// the end.
func (e *Engine) follow(ctx context.Context) (undelivered int) {
	e.reloading.Lock()
	wait := e.tasks.begin(ctx)
	for _, in := range e.work().Intakes {
		if then := in.OnceSettled(); then != nil {
			e.tasks.start(then)
		}
	}
	// Start is called here, so that Run starts no informer that a Reload has not configured yet.
	e.informers.Start()
	e.tasks.start(func(ctx context.Context) { _ = e.informers.Run(ctx) }) // it runs once
	e.tasks.start(func(ctx context.Context) { e.parts.Heirs.Run(ctx, &e.parts) })
	now := e.work()
	for _, w := range now.Waiting {
		w.End = e.tasks.start(w.Run)
	}
	for _, r := range now.Rules {
		r.Pruning.Start(e.tasks.start)
	}
	for _, d := range now.Dispatchers {
		d.End = e.tasks.start(d.Deliver)
	}
	e.reloading.Unlock()
	wait()
	e.reloading.Lock() // a Reload that has begun gets to its end
	defer e.reloading.Unlock()
	for _, r := range e.work().Rules {
		undelivered += r.Undelivered()
		r.Lane.Close()
	}
	return undelivered
}

// tasks are the goroutines of a run. Each can be ended by itself.
type tasks struct {
	group sync.WaitGroup

	mu  sync.Mutex      // guards ctx
	ctx context.Context // of the run; nil before it begins
}

// begin begins a run that lasts until ctx ends. wait returns when all tasks have ended.
func (t *tasks) begin(ctx context.Context) (wait func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx = ctx
	t.group.Go(func() { <-ctx.Done() }) // others may start until then
	return func() {
		<-ctx.Done()
		t.mu.Lock() // nothing starts from now on
		defer t.mu.Unlock()
		t.group.Wait()
	}
}

// check returns nil while a run goes on, ErrNotRunning before it, and ErrStopping after its end.
func (t *tasks) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ctx == nil:
		return ErrNotRunning
	case t.ctx.Err() != nil:
		return admin.ErrStopping
	}
	return nil
}

// within returns a context that ends with ctx, and with the run. release must be called.
func (t *tasks) within(ctx context.Context) (_ context.Context, release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() { cancel(admin.ErrStopping) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// start starts a task, unless the run is over. end ends it, and returns when it has ended.
func (t *tasks) start(run func(context.Context)) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil || t.ctx.Err() != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(t.ctx)
	ended := make(chan struct{})
	t.group.Go(func() {
		defer close(ended)
		defer cancel()
		run(ctx)
	})
	return func() {
		cancel()
		<-ended
	}
}

// Wake makes the informers look at Options.Clock, which somebody has set. Otherwise they do so
// within half a minute.
func (e *Engine) Wake() {
	for _, in := range e.work().Intakes {
		in.Informer.Wake()
	}
}

// Source returns the cache of a source, with its indexes.
func (e *Engine) Source(name string) (view *source.Source, ok bool) {
	for _, s := range e.work().Sources {
		if s.Name == name && !s.IsRule() {
			return s.View, true
		}
	}
	return nil, false
}
