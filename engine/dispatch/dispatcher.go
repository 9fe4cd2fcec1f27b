// Package dispatch brings matches to a handler until they have been answered.
//
// There is one [Dispatcher] per handler and one [Lane] per rule. A match that is offered to a lane waits in the lane's
// queue, merged with others of its object or not, as the rule's delivery says. The dispatcher takes from its lanes in
// turn, so that a busy rule does not starve the others, has up to Handler.Concurrency deliveries at once, and never two
// at once for one object of one rule. It takes nothing while the handler is not ready, so that merging goes on.
//
// What is offered is delivered at least once, in order per rule and object. A delivery ends when the handler has answered
// it: with done; or with a rejection, with its last attempt, or after the handler was lost three times with it, and then
// it becomes a dead letter, and later changes of the object go on. Everything else is retried with backoff, which holds
// up that object only.
//
// The package knows a handler as a handler.Handler, or as a [Submitter] where a goroutine for each event would be a waste,
// and cannot tell a process from a function. It does not know where matches come from, and applies no time limit of its own.
//
// An answer may ask for actions, which an [Actor] carries out before the delivery is done; a lane may make them itself, and then
// no handler is asked. All of them are checked before the first is done, and recorded and on disk before that, so that a crash in
// between has the same done again. What could not be done is repeated as it is as long as nothing newer has been merged with the
// change; what is refused because it was made of an older state ([ErrStale]) is not, and the handler is asked again, soon, with
// what came meanwhile. Changes that the rule made itself that way are not delivered to it: see LaneOptions.Own.
//
// With a [LaneStore] there is a record of each delivery until it has been dealt with, in flight or not. What is in flight
// when the program is killed is thus delivered again after a restart, with the same id. Under every, what there is no memory
// for is left to the store alone. It is loaded when its turn comes, in order, by one goroutine of Run: a store that is slow
// or fails holds up what it has, and nothing else.
package dispatch

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/plugins/handler"
)

// Recipient is a handler with the limits that its operator set.
type Recipient struct {
	Name string
	// Handler is called in a goroutine of its own for each event, unless it is a Submitter.
	Handler handler.Handler
	// Ready blocks until the handler can take an event, or ctx ends. It is asked before each event is taken, from one
	// goroutine. nil means always. An error, which is logged, asks to try again later.
	Ready func(ctx context.Context) error
	// Concurrency is how many deliveries there may be at once, where the handler has no Limit. 0 means 8.
	Concurrency int
	// Limit is how many the handler takes at once, in the place of Concurrency; it may change. What it has no room for stays
	// in the lanes, where it is merged.
	Limit func() int
	Retry Retry
}

// Submitter is implemented by handlers that do their work elsewhere, and need no goroutine that waits for each answer.
type Submitter interface {
	// Submit does what Handle does and returns at once. answered is called once, with what Handle would return, from any
	// goroutine, perhaps before Submit returns; it does not block. ev is never changed. Submit must not panic.
	Submit(ctx context.Context, ev *handler.Event, answered func(handler.Answer, error))
}

// Options are what a Dispatcher can do without.
type Options struct {
	Logger *slog.Logger
	// Attempted is called after each attempt. It is called concurrently, and must not block.
	Attempted func(Attempt)
	// Actor carries out what answers ask for. nil allows no actions: an answer with any is rejected.
	Actor Actor
	// DrainTimeout is how long deliveries may take to end when Run is to return, before they are cancelled. 0 means 30
	// seconds.
	DrainTimeout time.Duration
	// Journal encloses the records of what an answer changes. nil means that there is none.
	Journal Journal
	// Clock says what time it is. nil means the real time. Delays are waited for in real time.
	Clock clock.PassiveClock
}

// Attempt is one attempt at delivering an event, after it ended.
type Attempt struct {
	Rule, Handler string
	Result        Result
	Duration      time.Duration // of the attempt
	Latency       time.Duration // from when the change was first offered, over all attempts
}

// Result is what came of an attempt.
type Result string

// The results of an attempt.
const (
	Done      Result = "done"
	Retried   Result = "retry"     // it failed, and will be repeated
	Lost      Result = "lost"      // the handler went away meanwhile; it will be repeated
	Rejected  Result = "reject"    // the handler refused it for good: a dead letter
	Dead      Result = "dead"      // out of attempts, or lost too often: a dead letter
	Cancelled Result = "cancelled" // it failed when the dispatcher was to end, which says nothing; it waits again
)

// gateRetry is how long to wait after Handler.Ready failed.
const gateRetry = time.Second

// Dispatcher is made by New.
type Dispatcher struct {
	to   Recipient
	dead DeadLetters
	opts Options
	log  *slog.Logger

	// wake tells Run that there may be something to take. It holds one message; more would say the same.
	wake chan struct{}
	// flights are the deliveries that have not ended, the goroutines that some of them need, and the loader.
	flights sync.WaitGroup

	mu       sync.Mutex
	ready    []*Lane // those that may have something to take, each at most once, in turn
	inFlight int
	suspects suspects

	hungry hungry
	// crowded are lanes to report on. What it has no room for is not reported.
	crowded chan *Lane
}

// job is a delivery that was taken from its lane.
type job struct {
	lane *Lane
	item queue.Item[delta.Key, delivery.Delivery]
}

// New makes a Dispatcher that serves h and leaves to dead what cannot be delivered.
func New(to Recipient, dead DeadLetters, o Options) *Dispatcher {
	if to.Concurrency <= 0 {
		to.Concurrency = 8
	}
	to.Retry = to.Retry.withDefaults()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = 30 * time.Second
	}
	if o.Journal == nil {
		o.Journal = noJournal{}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Dispatcher{
		to: to, dead: dead, opts: o, log: o.Logger.With("handler", to.Name), wake: make(chan struct{}, 1),
		hungry: hungry{wake: make(chan struct{}, 1)}, crowded: make(chan *Lane, 16),
	}
}

// Run delivers until ctx ends. Then it takes nothing more and waits for the deliveries in flight, which have
// Options.DrainTimeout before their contexts end as well. What waits stays in the lanes. When Run returns, always nil,
// every goroutine that it started has ended. It is called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	inFlight, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	d.flights.Go(func() { d.load(ctx) })
	d.flights.Go(func() { d.reportCrowding(ctx) })
	for {
		j, ok := d.next(ctx)
		if !ok {
			break
		}
		d.launch(inFlight, ctx, j)
	}
	drained := make(chan struct{})
	go func() {
		d.flights.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(d.opts.DrainTimeout):
		d.log.Warn("deliveries did not end in time and are cancelled", "deliveries", d.InFlight())
		cancel()
		<-drained
	}
	return nil
}

// InFlight is how many deliveries are with the handler.
func (d *Dispatcher) InFlight() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inFlight
}

// next waits until the handler is ready and there is something for it, and takes that. If ok is false ctx has ended.
func (d *Dispatcher) next(ctx context.Context) (j job, ok bool) {
	for d.gate(ctx) {
		if d.hasRoom() {
			if j, ok := d.take(); ok {
				return j, true
			}
		}
		select {
		case <-d.wake:
		case <-ctx.Done():
		}
	}
	return job{}, false
}

// gate waits until the handler is ready. It returns false if ctx has ended.
func (d *Dispatcher) gate(ctx context.Context) bool {
	for complained := false; ctx.Err() == nil; {
		if d.to.Ready == nil {
			return true
		}
		err := d.to.Ready(ctx)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		if !complained {
			d.log.Warn("handler is not ready", "error", bounded(err.Error(), maxLogged))
			complained = true
		}
		select {
		case <-time.After(gateRetry):
		case <-ctx.Done():
		}
	}
	return false
}

// hasRoom tells whether the handler takes another event. When one has landed Run looks again.
func (d *Dispatcher) hasRoom() bool {
	limit := d.to.Concurrency
	if d.to.Limit != nil {
		limit = d.to.Limit()
	}
	return d.InFlight() < limit
}

// take takes what is next, from each lane in turn.
func (d *Dispatcher) take() (j job, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !ok {
		if j, ok = d.suspects.next(); ok {
			break
		}
		if len(d.ready) == 0 {
			return job{}, false
		}
		lane := d.ready[0]
		d.ready = slices.Delete(d.ready, 0, 1)
		if lane.stands() {
			lane.isReady = false
			continue
		}
		item, taken := lane.queue.Take()
		if !taken {
			lane.isReady = false
			continue
		}
		d.ready = append(d.ready, lane)
		j = job{lane, item}
		ok = d.suspects.pass(j)
	}
	d.inFlight++
	d.flights.Add(1)
	return j, true
}

// land is called when a job has ended.
func (d *Dispatcher) land(j job) {
	defer d.flights.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inFlight--
	d.suspects.landed(j)
	if len(d.ready) > 0 || d.suspects.wait() {
		d.notify()
	}
}

// offer notes that a lane has something to take.
func (d *Dispatcher) offer(lane *Lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !lane.isReady && !lane.stands() {
		lane.isReady = true
		d.ready = append(d.ready, lane)
	}
	d.notify()
}

func (d *Dispatcher) notify() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}
