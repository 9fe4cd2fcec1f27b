package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/features"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Options configure Informers. The zero Options work.
type Options struct {
	Logger *slog.Logger // nil logs nothing
	// Clock tells the time that informers log, compare and show. nil means the computer's clock.
	Clock clock.PassiveClock
	// Starts is how many lists may run at once, over all informers, so that a hundred sources do
	// not overload the API server. Watches that resume do not count. The default is 8.
	Starts int
	// GoneAfter is how long a resource must be gone in all versions before its objects count as
	// deleted. The default is a minute. Tests set it.
	GoneAfter time.Duration
	// IsReplicated says that what is read together becomes an entry of the log of several replicas:
	// informers then read more together, and up to some 18 ms later instead of 9.
	IsReplicated bool
}

// Informers holds the informers of one cluster, one per [Selection].
type Informers struct {
	config *rest.Config
	over   transports
	log    *slog.Logger
	clock  clock.PassiveClock
	tuning tuning
	slots  slots
	served *served
	reach  *reach
	sayer  *sayer
	// goneAfter is Options.GoneAfter.
	goneAfter time.Duration

	wake chan struct{} // capacity 1; signals that informers wait to be started

	mu      sync.Mutex // guards the fields below, and Informer.life
	started bool       // Start was called
	ran     bool
	all     []*Informer // in the order in which they were first requested
}

// tuning holds what tests change. It has many fields because each is a time or a bound of its own.
type tuning struct {
	pause, maxPause  time.Duration // between attempts: first, and longest after doubling
	unreachablePause time.Duration // the longest pause while the API server cannot be reached, or forbids it
	poll             time.Duration // between questions to discovery
	inFlight         int           // watch events on their way to the consumer, at most
	chunk            int           // objects per turn, in resyncs and when a resource is gone
	hold             time.Duration // how long a list may hold its slot
	short            time.Duration // a watch that ends sooner delays the next one
	calm             time.Duration // a relist sooner after the last one is delayed

	// How long requests wait: see limits and hearing.
	answer   time.Duration // for a watch or a small answer to begin
	listing  time.Duration // for a list to begin
	progress time.Duration // for the next bytes of an answer
	closing  time.Duration // for the bookmark that ends the initial events of a watch, or for any
	quiet    time.Duration // for anything on a watch
	proof    time.Duration // for anything on a watch that is a probe
	probe    time.Duration // how long a probe lasts; whole seconds
	brief    time.Duration // how long a watch without regular bookmarks lasts; whole seconds
	still    stillness     // for a resumed watch to have caught up
	// maxListed bounds the objects of one list, with all of its pages, and so what an endless list
	// costs. By default it is ten times what Kubernetes is tested with.
	maxListed int64
}

var defaultTuning = tuning{
	pause: 500 * time.Millisecond, maxPause: 30 * time.Second, unreachablePause: 10 * time.Second,
	poll: 2 * time.Second, inFlight: 4096, chunk: 500, hold: 30 * time.Second, short: time.Second,
	calm:   time.Minute,
	answer: 15 * time.Second, listing: 75 * time.Second, progress: 30 * time.Second,
	closing: 30 * time.Second, quiet: 70 * time.Second, proof: 15 * time.Second,
	probe: 10 * time.Second, brief: time.Minute,
	still: stillness{
		silence: time.Second, hush: 20 * time.Millisecond, partHush: 100 * time.Millisecond,
	},
	maxListed: 2_000_000,
}

// New returns the Informers of the cluster that config describes. client is for lists, and must
// carry config's credentials: see rest.HTTPClientFor. For watches New makes another client from
// config. New starts nothing and sends no request. The informers use disco only to learn whether a
// resource is served; its answers must come from the server, not from a cache. They ignore config's
// rate limits, and bound concurrent lists instead. New returns an error if config has no usable
// host, or if client-go's feature AtomicFIFO, which is on by default, has been switched off.
func New(
	config *rest.Config, client *http.Client, disco discovery.ServerResourcesInterface, o Options,
) (*Informers, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Starts <= 0 {
		o.Starts = 8
	}
	if o.GoneAfter <= 0 {
		o.GoneAfter = defaultGoneAfter
	}
	if !features.FeatureGates().Enabled(features.AtomicFIFO) {
		return nil, errNotAtomic
	}
	watches, err := gathering(config, o.IsReplicated)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	over := transports{lists: client, watches: watches}
	asks, err := newClient(config, over, Selection{}, nil, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	says := newSayer(o.Logger, o.Clock)
	resources := discovery.ToServerResourcesInterfaceWithContext(disco)
	return &Informers{
		config: config,
		over:   over,
		log:    o.Logger,
		clock:  o.Clock,
		tuning: defaultTuning,
		slots:  make(slots, o.Starts),
		served: newServed(resources, asks.groupVersions, o.Clock),
		reach:  &reach{sayer: says},
		sayer:  says,
		wake:   make(chan struct{}, 1),

		goneAfter: o.GoneAfter,
	}, nil
}

// errNotAtomic refuses a client-go that hands over objects of a list before its store has them all:
// see generation.listed.
var errNotAtomic = errors.New("source: client-go's feature AtomicFIFO is switched off, but informd " +
	"relies on it: remove KUBE_FEATURE_AtomicFIFO from the environment")

// Informer returns the informer of sel. The first call makes it. It must be configured before Start
// is called.
func (s *Informers) Informer(sel Selection) *Informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	isThere := func(i *Informer) bool { return i.sel == sel && !i.IsFixed() }
	if at := slices.IndexFunc(s.all, isThere); at >= 0 {
		return s.all[at]
	}
	i := newInformer(s, sel)
	s.all = append(s.all, i)
	return i
}

// Fixed makes an informer that has one object, as JSON, in place of those of a cluster. It sends no
// request, and the object never changes. sel names the informer in the log. Run and Start start it
// like the others.
func (s *Informers) Fixed(sel Selection, object []byte) *Informer {
	i := newInformer(s, sel)
	i.fixed = object
	i.health.log = slog.New(slog.DiscardHandler) // it has nothing to say about a cluster
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, i)
	return i
}

// All returns the informers, in the order in which they were first requested.
func (s *Informers) All() []*Informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Start has Run run the informers that were requested before. If it was not called yet, Run calls
// it.
func (s *Informers) Start() {
	s.mu.Lock()
	s.start()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// start marks all informers as started. s.mu is held.
func (s *Informers) start() {
	s.started = true
	for _, i := range s.all {
		i.life.isStarted = true
	}
}

// Stop ends an informer and forgets it. After Stop returns, its consumer is not called any more,
// and Informer makes a new one for its selection. Its cache stays readable. A consumer must not
// stop its own informer.
func (s *Informers) Stop(i *Informer) {
	s.mu.Lock()
	s.all = slices.DeleteFunc(s.all, func(other *Informer) bool { return other == i })
	end := i.life.end
	s.mu.Unlock()
	if end != nil {
		end()
		<-i.life.ended
	}
}

// Run runs every informer that is started until ctx ends, and returns when all of their goroutines
// have ended. Informers can run only once. Afterwards the caches stay readable, and no consumer is
// called any more.
func (s *Informers) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.ran {
		s.mu.Unlock()
		return errors.New("source: informers run once")
	}
	s.ran = true
	if !s.started {
		s.start()
	}
	s.mu.Unlock()

	var running sync.WaitGroup
	defer running.Wait()
	for {
		for _, start := range s.waiting(ctx) {
			running.Go(start)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
	}
}

// waiting returns a function for each informer that was started and does not run yet, which runs
// it.
func (s *Informers) waiting(ctx context.Context) (starts []func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.all {
		if start := i.life.begin(ctx, i.run); start != nil {
			starts = append(starts, start)
		}
	}
	return starts
}

// slots bound the lists that run at once.
type slots chan struct{}

// acquire waits for a slot. release returns the slot, and does nothing the second time. After hold
// the slot is free anyway, so that slow lists cannot block the others forever.
func (s slots) acquire(ctx context.Context, hold time.Duration) (release func(), err error) {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	free := sync.OnceFunc(func() { <-s })
	timer := time.AfterFunc(hold, free)
	return func() {
		timer.Stop()
		free()
	}, nil
}
