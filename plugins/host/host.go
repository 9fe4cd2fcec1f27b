package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// Host runs one handler. It is itself a [handler.Handler].
type Host struct {
	spec       Spec
	opts       Options
	log        *slog.Logger
	deliveries *deliveries

	mu     sync.Mutex
	status Status
	ready  chan struct{} // closed while a process takes events
}

var _ handler.Handler = (*Host)(nil)

// State is where a handler stands.
type State string

// The states of a Host.
const (
	Idle     State = "idle"     // Run has not begun
	Starting State = "starting" // a process is being launched, described and configured
	Ready    State = "ready"    // a process takes events
	Refused  State = "refused"  // the handler refused its config; it is asked again now and then
	Failed   State = "failed"   // the process could not be started, or ended; it is launched again after a pause
	Stopped  State = "stopped"  // Run has returned
)

// Status is what there is to say of a handler at one moment.
type Status struct {
	State    State
	Reason   string      // why it is refused or failed, for the operator
	Since    time.Time   // when it came to be in this state
	Problem  string      // what a ready handler says of its health; empty if it is well
	Handler  Description // of the last process that described itself
	PID      int         // of the process; 0 if none is ready
	Restarts int         // launches after the first
	Waiting  int         // events that wait for room or for a process
	InFlight int         // events that are with the process
	Counts   Counts
}

// New makes a Host; Run starts it. A spec that cannot work shows in Status once it runs.
func New(spec Spec, opts Options) *Host {
	spec, opts = spec.withDefaults(), opts.withDefaults()
	return &Host{
		spec:       spec,
		opts:       opts,
		log:        opts.Logger.With("handler", spec.Name),
		deliveries: newDeliveries(spec.Timeout),
		status:     Status{State: Idle, Since: time.Now()},
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
	h.mu.Unlock()
	s.Waiting, s.InFlight, s.Counts = h.deliveries.stats()
	return s
}

// Run keeps the handler running until ctx ends; then it drains and ends the process. It returns when all is gone, and
// always nil: whatever goes wrong with a handler is a state of it. Run is called once.
func (h *Host) Run(ctx context.Context) error {
	failures := backoff{min: h.opts.BackoffMin, max: h.opts.BackoffMax}
	refusals := backoff{min: h.opts.RefusedMin, max: h.opts.RefusedMax}
	complaints := complaints{log: h.log}
	for launches := 0; ctx.Err() == nil; launches++ {
		h.set(func(s *Status) { s.State, s.Restarts = Starting, launches })
		wellFor, err := h.runOnce(ctx, &complaints)
		if err == nil {
			break
		}
		if wellFor >= h.opts.BackoffReset {
			failures.reset()
		}
		state, pause := Failed, time.Duration(0)
		if _, ok := errors.AsType[*RefusedError](err); ok {
			state, pause = Refused, refusals.next()
		} else {
			pause = failures.next()
			refusals.reset()
		}
		h.set(func(s *Status) { s.State, s.Reason = state, err.Error() })
		complaints.about(err, pause, time.Now())
		sleep(ctx, pause)
	}
	h.set(func(s *Status) { s.State, s.Reason = Stopped, "" })
	h.deliveries.stop(fmt.Errorf("%s: %w", h.spec.Name, errStopped))
	return nil
}

// runOnce runs one process. It returns nil when ctx ended, and else why the process is gone and how long it was ready.
func (h *Host) runOnce(ctx context.Context, complaints *complaints) (wellFor time.Duration, err error) {
	s, err := launch(ctx, h.spec, h.opts, h.log)
	if err != nil {
		if ctx.Err() != nil {
			return 0, nil
		}
		return 0, err
	}
	began := time.Now()
	h.set(func(st *Status) {
		st.State, st.Reason, st.Problem = Ready, "", ""
		st.Handler, st.PID = s.desc, s.pid()
	})
	h.log.Info("handler ready", s.desc.attrs("pid", s.pid())...)

	st := &stream{session: s, deliveries: h.deliveries, health: h.health}
	if err = st.deliver(ctx); err != nil {
		s.end(0)
	} else {
		s.end(h.opts.StopTimeout)
	}
	if wellFor = time.Since(began); wellFor >= h.opts.BackoffReset {
		complaints.forget()
	}
	return wellFor, err
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
	switch {
	case now == Ready:
		close(h.ready)
	case was == Ready:
		h.ready = make(chan struct{})
		h.status.PID, h.status.Problem = 0, ""
	}
}

// health notes what the handler says of its health, and logs a change.
func (h *Host) health(problem string) {
	was := ""
	h.set(func(s *Status) { was, s.Problem = s.Problem, problem })
	switch {
	case problem == was:
	case problem == "":
		h.log.Info("handler is well again")
	default:
		h.log.Warn("handler reports a problem", "problem", problem)
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

// backoff is a pause that doubles from min to max.
type backoff struct {
	min, max time.Duration
	last     time.Duration
}

// next returns the next pause, up to a fifth shorter or longer: handlers that fail together do not come back together.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, b.min), b.max)
	return time.Duration(float64(b.last) * (0.8 + 0.4*rand.Float64()))
}

func (b *backoff) reset() { b.last = 0 }

// complaints logs failures: a new one at once, the same one again only after a while, which doubles from a minute to an
// hour. Whatever is left out is in the status, and counted.
type complaints struct {
	log   *slog.Logger
	last  string
	again time.Time
	pause time.Duration
	quiet int // since the last line
}

func (c *complaints) about(err error, pause time.Duration, now time.Time) {
	text := err.Error()
	if e, ok := errors.AsType[*exitError](err); ok {
		text = e.ending.Error() // its last words may hold the time
	}
	if text == c.last && now.Before(c.again) {
		c.quiet++
		return
	}
	if text != c.last {
		c.pause = 0
	}
	c.pause = min(max(2*c.pause, time.Minute), time.Hour)
	c.last, c.again = text, now.Add(c.pause)
	c.log.Error("handler failed", "error", err, "next", pause.Round(time.Millisecond), "unreported", c.quiet)
	c.quiet = 0
}

func (c *complaints) forget() { *c = complaints{log: c.log} }

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
