package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Options of Informers. The zero Options work.
type Options struct {
	Logger *slog.Logger // nil: none
	// Clock tells the time that is logged, compared and shown. nil: the computer's.
	Clock clock.PassiveClock
	// Starts is how many lists may run at once, over all informers: a hundred sources must not stampede the API server.
	// Watches that resume do not count. Default 8.
	Starts int
}

// Informers are the informers of one cluster, one per [Selection].
type Informers struct {
	config *rest.Config
	http   *http.Client
	log    *slog.Logger
	clock  clock.PassiveClock
	tuning tuning
	slots  slots
	served *served
	reach  *reach
	sayer  *sayer

	mu    sync.Mutex
	ran   bool
	all   map[Selection]*Informer
	order []*Informer   // all, in the order in which they were first asked for
	wake  chan struct{} // capacity 1: there are informers that Run has not started
}

// tuning is what tests make smaller.
type tuning struct {
	pause, maxPause  time.Duration // between attempts; doubling
	unreachablePause time.Duration // the most between attempts to reach an API server that is not there
	poll             time.Duration // how often discovery is asked for a resource that is not served
	unreviewed       int           // watch deltas taken in and not yet evaluated, past which the wire is left alone
	stalled          time.Duration // how long the gate believes its own count while nothing happens
	chunk            int           // objects handed to a listener at a time, at joins, resyncs and a resource's end
	hold             time.Duration // how long a list may keep others waiting
	short            time.Duration // a watch that lasts less delays the next
	silence          time.Duration // a resumed watch that brings nothing for so long has nothing to bring
}

var defaultTuning = tuning{
	pause: 500 * time.Millisecond, maxPause: 30 * time.Second, unreachablePause: 10 * time.Second,
	poll: 2 * time.Second, unreviewed: 4096, stalled: 10 * time.Second, chunk: 500, hold: 30 * time.Second, short: time.Second,
	silence: time.Second,
}

// New makes Informers of the cluster that config describes, over client, which has config's credentials (see
// rest.HTTPClientFor). It starts nothing and asks nothing. disco is asked only whether a resource is served; its answers
// must be the server's, not a cache's. Limits of requests per second in config do not count: what may run at once is
// bounded. The error is that of a config without a usable host.
func New(config *rest.Config, client *http.Client, disco discovery.ServerResourcesInterface, o Options) (*Informers, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Starts <= 0 {
		o.Starts = 8
	}
	if _, err := newClient(config, client, Selection{}, nil); err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	says := newSayer(o.Logger, o.Clock)
	return &Informers{
		config: config,
		http:   client,
		log:    o.Logger,
		clock:  o.Clock,
		tuning: defaultTuning,
		slots:  make(slots, o.Starts),
		served: newServed(discovery.ToServerResourcesInterfaceWithContext(disco), o.Clock),
		reach:  &reach{sayer: says},
		sayer:  says,
		all:    map[Selection]*Informer{},
		wake:   make(chan struct{}, 1),
	}, nil
}

// Informer returns the informer of sel: a new one the first time, the same one from then on. Run starts
// the informers that exist when it begins; a later one is made ready first, and then started by Start.
func (s *Informers) Informer(sel Selection) *Informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.all[sel]
	if i == nil {
		i = newInformer(s, sel)
		s.all[sel] = i
		s.order = append(s.order, i)
	}
	return i
}

// Start starts the informers that were asked for since Run began. It does nothing before Run.
func (s *Informers) Start() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// All are the informers there are, in the order in which they were first asked for.
func (s *Informers) All() []*Informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Informer(nil), s.order...)
}

// Run runs every informer until ctx ends, and returns when all of their goroutines have. It can run once: afterwards
// the caches stay readable, and listeners hear nothing more.
func (s *Informers) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.ran {
		s.mu.Unlock()
		return errors.New("source: informers run once")
	}
	s.ran = true
	s.mu.Unlock()

	var running sync.WaitGroup
	defer running.Wait()
	for started := 0; ; {
		all := s.All()
		for _, i := range all[started:] {
			running.Go(func() { i.run(ctx) })
		}
		started = len(all)
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
	}
}

// slots bound the lists that run at once.
type slots chan struct{}

// acquire waits for a slot. It is given back by release, once, or after hold: one slow list must not keep the others
// from ever starting.
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
