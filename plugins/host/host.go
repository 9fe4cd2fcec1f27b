package host

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// Host runs one handler. It is itself a [handler.Handler].
type Host struct {
	name       string
	opts       Options
	log        *slog.Logger
	deliveries *deliveries
	takeovers  chan *takeover // from Reload to Run; not buffered
	reloading  chan struct{}  // holds one token while a Reload is under way
	launch     launcher
	ended      chan struct{}  // closed when Run returns
	endings    sync.WaitGroup // processes that were replaced and have not ended yet

	mu     sync.Mutex
	spec   Spec
	status Status
	crash  failures
	ready  chan struct{} // closed while a process takes events
}

var _ handler.Handler = (*Host)(nil)

// State is where a handler stands.
type State string

// The states of a Host.
const (
	Idle       State = "idle"        // Run has not begun
	Starting   State = "starting"    // a process is being launched, described and configured
	Running    State = "running"     // a process takes events
	Wedged     State = "wedged"      // a process gave no answer to a health check; if it gives none to the next it is ended
	BackingOff State = "backing off" // the process could not be started, or ended; it is launched again after a pause
	Refused    State = "refused"     // the handler refused its config, or cannot be confined as asked; it is tried again now and then
	Stopped    State = "stopped"     // Run has returned
)

// States are all of them, in the order of a handler's life.
func States() []State {
	return []State{Idle, Starting, Running, Wedged, BackingOff, Refused, Stopped}
}

// Status is what there is to say of a handler at one moment.
type Status struct {
	State     State
	Reason    string      // why it is wedged, backing off or refused, for the operator
	Since     time.Time   // when it came to be in this state
	Next      time.Time   // when it is launched again, if it is backing off or refused
	Problem   string      // what a running handler says of its health; empty if it is well
	Handler   Description // of the last process that described itself
	Confined  string      // what the last process that was launched is confined to; empty for nothing
	PID       int         // of the process; 0 if none is running
	Reloading time.Time   // since when a Reload is under way; zero if none is
	Restarts  int         // launches after the first, those by Reload included
	Failures  int         // that count towards the pause before the next launch; see Options.BackoffDecay
	LastLog   []string    // the last lines on standard error of the last process that failed, the oldest first; at most 10 of 200 bytes
	Waiting   int         // events that wait for room or for a process
	InFlight  int         // events that are with the process
	Counts    Counts
	Reads     uint64 // calls that read the cache
	Refused   uint64 // of them: that were answered with an error

	Endpoints []Endpoint // of a remote handler, by address
}

// Endpoint is one of those behind a remote handler's name.
type Endpoint struct {
	Address string // and port
	Status  Status // of the connection to it: what is said of processes is said of that
}

// New makes a Host; Run starts it. A spec that cannot work shows in Status once it runs.
func New(spec Spec, opts Options) *Host {
	spec, opts = spec.withDefaults(), opts.withDefaults()
	return newHost(spec, opts, launch, newDeliveries(spec.Timeout, &debts{}))
}

// launcher begins a session: launch is one.
type launcher func(ctx context.Context, spec Spec, opts Options, log *slog.Logger) (*session, error)

func newHost(spec Spec, opts Options, launch launcher, deliveries *deliveries) *Host {
	return &Host{
		name:       spec.Name,
		spec:       spec,
		opts:       opts,
		log:        opts.Logger.With("handler", spec.Name),
		launch:     launch,
		deliveries: deliveries,
		takeovers:  make(chan *takeover),
		reloading:  make(chan struct{}, 1),
		ended:      make(chan struct{}),
		status:     Status{State: Idle, Since: time.Now()},
		crash:      newFailures(opts.BackoffMin, opts.BackoffMax, opts.BackoffDecay),
		ready:      make(chan struct{}),
	}
}

// Handle delivers ev and returns the handler's answer. It blocks while no process is ready or the window is full. The
// spec's time limit counts from the sending on; after it, and when ctx ends, the handler is told that its answer is no
// longer wanted. The error wraps [handler.ErrLost] when the process went away with the event; ev may then have been
// handled, and is to be sent again with a higher Attempt. ev's JSON is not copied and must never be changed.
func (h *Host) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	answered := make(chan outcome, 1) // comes once
	h.Submit(ctx, &ev, func(a handler.Answer, err error) { answered <- outcome{answer: a, err: err} })
	o := <-answered
	return o.answer, o.err
}

// Submit does what Handle does and returns at once. answered is called once, with what Handle would return, from any
// goroutine, perhaps before Submit returns; it must not block. ev must never be changed.
func (h *Host) Submit(ctx context.Context, ev *handler.Event, answered func(handler.Answer, error)) {
	h.deliveries.submit(ctx, ev, answered)
}

// Ready waits until a process takes events.
func (h *Host) Ready(ctx context.Context) error {
	h.mu.Lock()
	ready := h.ready
	h.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Limit is how many events the process takes at once: the least of what the operator and the handler allow, as far as it
// has said so.
func (h *Host) Limit() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return limit(h.spec, h.status.Handler)
}

func limit(spec Spec, desc Description) int {
	if desc.Concurrency > 0 {
		return min(spec.Concurrency, desc.Concurrency)
	}
	return spec.Concurrency
}

// Status tells how the handler is.
func (h *Host) Status() Status {
	h.mu.Lock()
	s := h.status
	s.Failures = h.crash.count(time.Now())
	h.mu.Unlock()
	s.Waiting, s.InFlight, s.Counts = h.deliveries.stats()
	s.Reads, s.Refused = h.opts.reads.Calls.Load(), h.opts.reads.Refused.Load()
	return s
}

// set changes the status.
func (h *Host) set(change func(*Status)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.status.State
	change(&h.status)
	now := h.status.State
	if now == was {
		return
	}
	h.status.Since = time.Now()
	if now == Running {
		close(h.ready)
	} else if was == Running {
		h.ready = make(chan struct{})
	}
	if now != Running && now != Wedged {
		h.status.PID, h.status.Problem = 0, ""
	}
	if now != BackingOff && now != Refused {
		h.status.Next = time.Time{}
	}
}

// Try launches a handler only to have it describe itself and check its config, and ends it again. An error is a
// *RefusedError if the handler does not accept the config, and else says why it does not work.
func Try(ctx context.Context, spec Spec, opts Options) (Description, error) {
	spec, opts = spec.withDefaults(), opts.withDefaults()
	s, err := launch(ctx, spec, opts, opts.Logger.With("handler", spec.Name))
	if err != nil {
		return Description{}, fmt.Errorf("handler %q: %w", spec.Name, err)
	}
	s.end(opts.StopTimeout)
	return s.desc, nil
}
