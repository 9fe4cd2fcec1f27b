// Package dispatch delivers matches to a handler until the handler has answered them.
//
// There is one [Dispatcher] per handler and one [Lane] per rule. A lane queues the matches that it
// is offered, and merges those of one object if the rule's delivery says so. The dispatcher takes
// from its lanes in turn, so a busy rule does not starve the others. It never makes two deliveries
// at once for one object of one rule. The handler decides how many it makes at once, because the
// handler knows what it is slow with: see Recipient.Limit. While the handler is not ready, the
// dispatcher takes nothing, so merging goes on.
//
// The dispatcher delivers each match at least once, in order per rule and object. A delivery ends
// when the handler answers with done. It becomes a dead letter when the handler rejects it, when
// its last attempt fails, or when the handler was lost with it three times. Later changes of the
// object then go on. The dispatcher retries everything else with backoff, which holds up that
// object only.
//
// To this package a handler is a handler.Handler, or a [Submitter] where a goroutine for each event
// would be a waste. It does not know whether that is a process or a function. It does not know
// where matches come from, and sets no time limits of its own.
//
// An answer may ask for actions, which an [Actor] performs before the delivery is done. A lane may
// also make actions itself: instead of calling a handler, or once the handler has acknowledged the
// event (see delivery.Acknowledged). The dispatcher first checks all actions, then records them on
// disk, and then performs them. After a crash in between it performs the same
// actions again. It repeats failed actions unchanged until a newer change is merged with theirs.
// Actions that are refused because they were made of an older state ([ErrStale]) are not repeated:
// the dispatcher soon asks the handler again, with the changes that came meanwhile. It does not
// deliver changes to a rule that the rule made itself this way: see LaneOptions.Own.
//
// With a store (LaneOptions.Store) each delivery has a record until it is done, in flight or not.
// So a delivery that is in flight when the program is killed comes again after a restart, with the
// same id. Under every, only the store holds the deliveries that do not fit into memory. One
// goroutine of Run loads them in order, when their turn comes. A store that is slow or fails holds
// up those deliveries and nothing else.
package dispatch

import (
	"context"
	"log/slog"
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
	// Ready blocks until the handler can take an event, or ctx ends. One goroutine calls it before
	// it takes each event. After an error, which it logs, it calls Ready again later. nil means
	// that the handler is always ready.
	Ready func(ctx context.Context) error
	// Concurrency bounds the deliveries at once if Limit is nil. 0 means 8.
	Concurrency int
	// Limit, if set, returns how many deliveries the handler takes at once; the number may change.
	// The rest stays in the lanes, where it is merged. If isProbe is true, deliveries that seem to
	// hang take all places except a few. In these the handler wants to see whether it answers
	// others. The dispatcher uses them as probe.go says.
	Limit func() (n int, isProbe bool)
	// Grown delivers a token when Limit has grown, other than by an answer. It may be nil.
	Grown <-chan struct{}
	Retry Retry
	// IsDry says that Handler only logs what it gets, in a dry run.
	IsDry bool
}

// Submitter is implemented by handlers that work elsewhere, and need no goroutine that waits for
// each answer.
type Submitter interface {
	// Submit does what Handle does, but returns at once. It calls answered once with what Handle
	// would return. It may do so from any goroutine, even before Submit returns; answered does not
	// block. Nobody changes ev. Submit must not panic.
	Submit(ctx context.Context, ev *handler.Event, answered func(handler.Answer, error))
}

// Options are optional settings of a Dispatcher.
type Options struct {
	Logger *slog.Logger
	// Attempted is called after each attempt, concurrently. It must not block.
	Attempted func(Attempt)
	// Actor performs the actions of answers. nil allows none: the dispatcher rejects an answer with
	// any.
	Actor Actor
	// ActsDry says that the rules' own actions are only logged, in a dry run.
	ActsDry bool
	// DrainTimeout is how long deliveries in flight may take when Run ends, before it cancels them.
	// 0 means 30 seconds.
	DrainTimeout time.Duration
	// Journal makes the records of one change a unit. nil means that nothing is recorded.
	Journal Journal
	// Clock tells the time. nil means the real time.
	Clock clock.PassiveClock
	// AfterFunc calls a function once Clock has advanced by a time. It must not call it at once. nil
	// means time.AfterFunc.
	AfterFunc func(time.Duration, func()) queue.Timer
	// IsStepped makes a Dispatcher that Step drives in place of Run. Everything then happens in the
	// goroutine that calls, and the same calls have the same results: delays have no random part.
	IsStepped bool
}

// Attempt describes one attempt at delivering an event, after it ended.
type Attempt struct {
	Rule, Handler string
	Result        Result
	Duration      time.Duration // of this attempt
	Latency       time.Duration // since the change was first offered, over all attempts
}

// Result is the result of an attempt.
type Result string

// The results of an attempt.
const (
	Done     Result = "done"
	Idle     Result = "idle"   // the rule acts alone, and had no action to perform
	Retried  Result = "retry"  // it failed, and the dispatcher will repeat it
	Lost     Result = "lost"   // the handler went away; the dispatcher will repeat it
	Rejected Result = "reject" // the handler refused the event for good: a dead letter
	Dead     Result = "dead"   // out of attempts, or lost too often: a dead letter
	// it failed while the dispatcher was ending, which proves nothing; the event waits again
	Cancelled Result = "cancelled"
)

// Results returns all results of an attempt.
func Results() []Result { return []Result{Done, Idle, Retried, Lost, Rejected, Dead, Cancelled} }

// gateRetry is the pause after Recipient.Ready failed.
const gateRetry = time.Second

// Dispatcher delivers the events of its lanes to one handler. New makes it. It is safe for
// concurrent use. It has many fields because lanes, handler and reports meet here.
type Dispatcher struct {
	to   Recipient
	dead DeadLetters
	opts Options
	log  *slog.Logger
	now  func() time.Time // Options.Clock's, for all lanes
	// ownRetry is how the own actions of rules are retried, whatever Recipient.Retry says.
	ownRetry Retry
	// start runs a part of a delivery that must not hold up Run: in a goroutine of its own.
	start func(func())

	// wake wakes Run when a lane may have something to take. One message is enough for all.
	wake chan struct{}
	// flights counts the deliveries that have not ended, the goroutines that some of them need, and
	// the loader.
	flights sync.WaitGroup

	// mu guards ready, inFlight, suspects, probes and the lanes' turns. It is taken
	// after the Journal's Begin and before the locks of the lanes' queues.
	mu       sync.Mutex
	ready    turns // lanes that may have something to take, each at most once
	inFlight int
	suspects suspects
	probes   probes

	hungry hungry
	// crowded holds lanes to report on. A lane that finds it full is not reported.
	crowded chan *Lane
}

// deliveries is the queue of a lane, and item what it hands out.
type (
	deliveries = queue.Queue[delta.Key, delivery.Delivery]
	item       = queue.Item[delta.Key, delivery.Delivery]
)

// job is a delivery that was taken from its lane.
type job struct {
	lane *Lane
	item item
}

// New returns a Dispatcher that serves to, and gives dead the events that cannot be delivered.
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
	if o.AfterFunc == nil {
		o.AfterFunc = func(d time.Duration, f func()) queue.Timer { return time.AfterFunc(d, f) }
	}
	d := &Dispatcher{
		to: to, dead: dead, opts: o, log: o.Logger.With("handler", to.Name), now: o.Clock.Now,
		ownRetry: Retry{}.withDefaults(),
		wake:     make(chan struct{}, 1), hungry: hungry{wake: make(chan struct{}, 1)},
		crowded: make(chan *Lane, 16),
	}
	d.start = d.flights.Go
	if o.IsStepped {
		d.step()
	}
	return d
}

// Run delivers until ctx ends. Then it takes nothing more and waits for the deliveries in flight.
// After Options.DrainTimeout it cancels their contexts as well. What waits stays in the lanes. When
// Run returns, always with nil, every goroutine that it started has ended. It is called once.
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
		d.opts.Journal.Await(j.item.Cut)
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
		d.log.Warn("deliveries did not end in time: cancelling them", "deliveries", d.InFlight())
		cancel()
		<-drained
	}
	return nil
}

// InFlight returns the number of deliveries that were taken from their lanes and have not ended.
func (d *Dispatcher) InFlight() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inFlight
}

// next waits until the handler is ready and there is a job for it, and takes that. If ok is false,
// ctx has ended.
func (d *Dispatcher) next(ctx context.Context) (j job, ok bool) {
	for d.gate(ctx) {
		if hasRoom, isProbe := d.room(); hasRoom {
			if j, ok := d.take(isProbe); ok {
				return j, true
			}
		}
		select {
		case <-d.wake:
		case <-d.to.Grown:
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

// room reports whether the handler takes another event. Run asks again whenever a job has landed.
func (d *Dispatcher) room() (hasRoom, isProbe bool) {
	limit := d.to.Concurrency
	if d.to.Limit != nil {
		limit, isProbe = d.to.Limit()
	}
	return d.InFlight() < limit, isProbe
}

// take takes the next job, or one for a probe.
func (d *Dispatcher) take(isProbe bool) (j job, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !ok {
		if j, ok = d.suspects.next(); ok {
			break
		}
		if isProbe {
			j, ok = d.probe()
		} else {
			j, ok = d.takeInTurn((*deliveries).Take)
		}
		if !ok {
			return job{}, false
		}
		ok = d.suspects.pass(j)
	}
	d.inFlight++
	d.flights.Add(1)
	return j, true
}

// takeInTurn takes a job from the lane whose turn it is. d.mu is held.
func (d *Dispatcher) takeInTurn(take func(*deliveries) (item, bool)) (j job, ok bool) {
	for !d.ready.isEmpty() {
		lane := d.ready.next()
		if !lane.stands() {
			if item, ok := take(lane.queue); ok {
				d.ready.add(lane)
				return job{lane, item}, true
			}
		}
		lane.turn.isReady = false
	}
	return job{}, false
}

// land notes that a job has ended, and wakes Run if there is more to take.
func (d *Dispatcher) land(j job) {
	defer d.flights.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inFlight--
	d.suspects.landed(j)
	d.probes.unheard = 0
	if !d.ready.isEmpty() || d.suspects.wait() {
		d.notify()
	}
}

// offer notes that a lane may have something to take.
func (d *Dispatcher) offer(lane *Lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !lane.turn.isReady && !lane.stands() {
		lane.turn.isReady = true
		d.ready.add(lane)
	}
	d.probes.fresh = lane
	d.notify()
}

func (d *Dispatcher) notify() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}
