package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/informd/informd/plugins/host/confine"
	"github.com/informd/informd/plugins/host/outbox"
	"github.com/informd/informd/plugins/host/session"
)

// launcher begins a session with a new process, or over a new connection.
type launcher func(
	ctx context.Context, spec Spec, opts Options, log *slog.Logger,
) (*session.Session, error)

// errStopped is the outcome of events that were never sent when Run returns.
var errStopped = errors.New("handler is stopped")

// supervisor runs one session after the other, so that a consumer's events are delivered: with the
// processes of a local handler, or over connections to one endpoint of a remote one.
type supervisor struct {
	name       string
	opts       Options
	log        *slog.Logger
	launch     launcher
	consumer   *outbox.Consumer
	successors chan *session.Successor // from Reload to run; not buffered
	ended      chan struct{}           // closed when run is about to return
	endings    sync.WaitGroup          // of sessions that were replaced and have not ended yet

	mu       sync.Mutex         // guards the fields below; no other lock is taken under it
	first    *session.Successor // launched before run, which begins with it; nil otherwise
	spec     Spec               // of the current session, and of the next one that is launched
	offered  Spec               // of the session that replace offers; it becomes spec when that takes over
	status   Status
	failures backoff
	ready    chan struct{} // closed while a session takes events
}

func newSupervisor(
	spec Spec, opts Options, launch launcher, consumer *outbox.Consumer,
) *supervisor {
	return &supervisor{
		name:       spec.Name,
		opts:       opts,
		log:        opts.Logger.With("handler", spec.Name),
		launch:     launch.abandoning(opts.launchGrace),
		consumer:   consumer,
		successors: make(chan *session.Successor),
		ended:      make(chan struct{}),
		spec:       spec,
		status:     Status{State: Idle, Since: time.Now()},
		failures:   opts.Backoff.ofFailures(),
		ready:      make(chan struct{}),
	}
}

// run keeps a session running until ctx ends. It returns when nothing of it is left.
func (s *supervisor) run(ctx context.Context) {
	refusals := s.opts.Backoff.ofRefusals()
	complaints := complaints{log: s.log}
	next := s.takeFirst()
	for launches := 0; ctx.Err() == nil; launches++ {
		s.set(func(st *Status) { st.Restarts = launches })
		var err error
		began := time.Now()
		if next, err = s.runOnce(ctx, next, &complaints); err == nil {
			continue // ctx ended, or there is a successor
		}
		state, pause, left := BackingOff, s.opts.Backoff.Min, errors.Is(err, session.ErrLeaving)
		switch {
		case isRefusal(err):
			state, pause = Refused, refusals.next()
		case left && time.Since(began) > goodAge*s.opts.Backoff.Min: // it did its part
		default:
			s.mu.Lock()
			pause = s.failures.next()
			s.mu.Unlock()
			refusals.n = 0
		}
		s.set(func(st *Status) {
			st.State, st.Reason = state, err.Error()
			st.LastLog, st.Next = lastLog(err), time.Now().Add(pause)
			if !left {
				st.LastFailure = Failure{Reason: err.Error(), At: time.Now()}
			}
		})
		if left {
			s.log.Info("handler is going away, and has answered all its events", "next", pause)
		} else {
			complaints.about(state, err, pause, time.Now())
		}
		if next == nil {
			next = s.pause(ctx, pause)
		}
	}
	if next != nil {
		next.Abandon(s.stoppedError())
	}
	s.endings.Wait()
	s.set(func(st *Status) { st.State, st.Reason = Stopped, "" })
	close(s.ended)
}

// goodAge is how long a session must last that the peer ends in good order, so that it does not
// count as a failure. It is a multiple of the pause after a first failure. Some servers make their
// clients connect again regularly.
const goodAge = 10

func (s *supervisor) stoppedError() error { return fmt.Errorf("%s: %w", s.name, errStopped) }

// isRefusal reports whether a handler will not run as it is configured, as opposed to one that
// fails.
func isRefusal(err error) bool {
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return true
	}
	_, ok := errors.AsType[*confine.Error](err)
	return ok
}

// runOnce runs one session: from, if it is not nil, or a new one. It returns nil when ctx ended or
// a successor takes over, which it returns; otherwise why the session ended.
func (s *supervisor) runOnce(
	ctx context.Context, from *session.Successor, complaints *complaints,
) (next *session.Successor, err error) {
	current, err := s.begin(ctx, from)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil
		}
		return nil, err
	}
	began := time.Now()
	s.consumer.Attach(current.Window()) // first: who sees it run counts on its places
	s.mu.Lock()
	s.failures.well(began)
	s.mu.Unlock()
	pid, confined := current.PID(), current.Confined()
	s.set(func(st *Status) {
		st.State, st.Reason, st.Problem, st.ProblemAt = Running, "", "", time.Time{}
		st.Handler, st.Confined, st.PID = current.Description(), confined, pid
	})
	attrs := current.Description().Attrs()
	if pid != 0 {
		attrs = append(attrs, "pid", pid)
	}
	if confined != "" {
		attrs = append(attrs, "confined", confined)
	}
	s.log.Info("handler ready", attrs...)

	from.Report(nil)
	observer := session.Observer{Health: s.health, Wedged: s.wedged}
	next, drained, err := current.Deliver(ctx, s.consumer, s.successors, observer)
	s.mu.Lock()
	s.failures.ended(time.Now())
	s.mu.Unlock()
	switch {
	case err != nil:
		s.set(func(st *Status) { st.State, st.Reason = BackingOff, err.Error() })
		current.End(0)
		err = current.WithLastLines(err)
	case next != nil && drained: // it has let go of everything: nobody waits for its end
		s.endings.Go(func() { current.End(s.opts.StopTimeout) })
	default:
		current.End(s.opts.StopTimeout)
	}
	if time.Since(began) >= s.opts.Backoff.Decay {
		complaints.forget()
	}
	return next, err
}

// begin returns the session to run: from, or a new one with its stream open.
func (s *supervisor) begin(ctx context.Context, from *session.Successor) (*session.Session, error) {
	if from != nil {
		if err := from.Gone(); err != nil {
			from.Abandon(err)
			return nil, err
		}
		s.mu.Lock()
		s.spec = s.offered
		s.mu.Unlock()
		return from.Session, nil
	}
	s.set(func(st *Status) { st.State = Starting })
	s.mu.Lock()
	spec := s.spec
	s.mu.Unlock()
	done := s.remindOf()
	current, err := s.launch(ctx, spec, s.opts, s.log)
	done()
	if err != nil {
		return nil, err
	}
	if err := current.Open(ctx); err != nil {
		current.End(0)
		return nil, current.WithLastLines(err)
	}
	return current, nil
}

// pause waits for d or for the end of ctx. It returns a successor if one comes first.
func (s *supervisor) pause(ctx context.Context, d time.Duration) *session.Successor {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case next := <-s.successors:
		return next
	}
	return nil
}

// health records what the handler reports about itself, and logs a change.
func (s *supervisor) health(problem string) {
	was := ""
	s.set(func(st *Status) {
		if was, st.Problem = st.Problem, problem; problem == "" {
			st.ProblemAt = time.Time{}
		} else if problem != was {
			st.ProblemAt = time.Now()
		}
	})
	switch {
	case problem == was:
	case problem == "":
		s.log.Info("handler reports no problem any more")
	default:
		s.log.Warn("handler reports a problem", "problem", problem)
	}
}

// wedged records that the handler leaves health checks unanswered, or, with no reason, that it
// answers.
func (s *supervisor) wedged(reason string) {
	was := Running
	s.set(func(st *Status) {
		was = st.State
		st.State, st.Reason = Running, ""
		if reason != "" {
			st.State, st.Reason = Wedged, reason
		}
	})
	switch {
	case reason != "" && was == Running:
		s.log.Warn("handler is wedged", "reason", reason)
	case reason == "" && was == Wedged:
		s.log.Info("handler answers again")
	}
}

// waitReady waits until a session takes events.
func (s *supervisor) waitReady(ctx context.Context) error {
	s.mu.Lock()
	ready := s.ready
	s.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// concurrency returns what the operator allows.
func (s *supervisor) concurrency() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec.Concurrency
}

// snapshot returns the status, with the consumer's figures.
func (s *supervisor) snapshot() Status {
	s.mu.Lock()
	st := s.status
	st.Failures = s.failures.count(time.Now())
	s.mu.Unlock()
	st.Waiting, st.InFlight, st.Counts = s.consumer.Stats()
	st.Slow = s.consumer.Slow()
	st.Reads = Reads{Calls: s.opts.reads.Calls.Load(), Refused: s.opts.reads.Refused.Load()}
	return st
}

// set changes the status.
func (s *supervisor) set(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.status.State
	change(&s.status)
	now := s.status.State
	if now == was {
		return
	}
	s.status.Since = time.Now()
	if now == Running {
		close(s.ready)
	} else if was == Running {
		s.ready = make(chan struct{})
	}
	if now != Running && now != Wedged {
		s.status.PID, s.status.Problem, s.status.ProblemAt = 0, "", time.Time{}
	}
	if now != BackingOff && now != Refused {
		s.status.Next = time.Time{}
	}
}
