package dispatch

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/queue"
)

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

	// mu guards ready, inFlight, resting, suspects, probes and the lanes' turns. It is taken after
	// the Journal's Begin and before the locks of the lanes' queues.
	mu       sync.Mutex
	ready    turns // lanes that may have something to take, each at most once
	inFlight int
	resting  []*rest // the longest first; not counted in inFlight
	suspects suspects
	probes   probes

	// isHalted says that the Journal's Await has failed, or that this informd may not lead any more: d
	// takes nothing more.
	isHalted atomic.Bool

	hungry hungry
	// crowded holds lanes to report on. A lane that finds it full is not reported.
	crowded chan *Lane
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
		d.start = func(part func()) { part() }
		d.to.Retry.exact, d.ownRetry.exact = true, true
	}
	return d
}

// InFlight returns the number of deliveries that were taken from their lanes and have not ended.
func (d *Dispatcher) InFlight() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inFlight
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
		if !lane.isStopped() {
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
	d.probes.unanswered = 0
	if !d.ready.isEmpty() || len(d.resting) > 0 || d.suspects.canGo() {
		d.notify()
	}
}

// offer notes that a lane may have something to take.
func (d *Dispatcher) offer(lane *Lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enlist(lane)
	d.probes.fresh = lane
	d.notify()
}

// enlist has a lane take its turn. d.mu is held.
func (d *Dispatcher) enlist(lane *Lane) {
	if !lane.turn.isReady && !lane.isStopped() {
		lane.turn.isReady = true
		d.ready.add(lane)
	}
}

// hold has the dispatcher take nothing from a lane, or end that.
func (d *Dispatcher) hold(lane *Lane, on bool) {
	d.mu.Lock()
	lane.turn.isHeld = on
	d.mu.Unlock()
	d.offer(lane)
}

// forget drops the suspects of a lane that is closed.
func (d *Dispatcher) forget(lane *Lane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.suspects.forget(lane)
}

// loadSoon notes that a lane has something to load from its store. It does not block.
func (d *Dispatcher) loadSoon(lane *Lane) { d.hungry.offer(lane) }

func (d *Dispatcher) notify() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// probe takes a job for a probe. d.mu is held.
func (d *Dispatcher) probe() (j job, ok bool) {
	if lane := d.probes.fresh; lane != nil {
		d.probes.fresh = nil
		if !lane.isStopped() {
			if item, ok := lane.queue.TakeNewest(); ok {
				return job{lane, item}, true
			}
		}
	}
	if d.probes.unanswered >= maxUnanswered {
		return job{}, false
	}
	d.probes.unanswered++
	return d.takeInTurn((*deliveries).TakeAny)
}

// noteCrowding has Run report that a lane dropped a change, or merged two, because memory is full.
// Run writes the log, because callers of Offer must not wait for it.
func (d *Dispatcher) noteCrowding(l *Lane) {
	if l.reports.isCrowded.Swap(true) {
		return
	}
	select {
	case d.crowded <- l:
	default: // sixteen other lanes wait; a lane that stays crowded comes again
		l.reports.isCrowded.Store(false)
	}
}
