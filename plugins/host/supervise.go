package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/informd/informd/plugins/host/confine"
)

// Run keeps the handler running until ctx ends; then it drains and ends the process. It returns when all is gone, and
// always nil: whatever goes wrong with a handler is a state of it. Run is called once.
func (h *Host) Run(ctx context.Context) error {
	refusals := failures{min: h.opts.RefusedMin, max: h.opts.RefusedMax}
	complaints := complaints{log: h.log}
	var next *takeover
	for launches := 0; ctx.Err() == nil; launches++ {
		h.set(func(s *Status) { s.Restarts = launches })
		var err error
		began := time.Now()
		if next, err = h.runOnce(ctx, next, &complaints); err == nil {
			continue // ctx ended, or there is a process to go on with
		}
		state, pause, left := BackingOff, h.opts.BackoffMin, errors.Is(err, errLeaving)
		switch {
		case refused(err):
			state, pause = Refused, refusals.next()
		case left && time.Since(began) > goodAge*h.opts.BackoffMin: // it did its part
		default:
			h.mu.Lock()
			pause = h.crash.next()
			h.mu.Unlock()
			refusals.n = 0
		}
		h.set(func(s *Status) {
			s.State, s.Reason, s.LastLog, s.Next = state, err.Error(), lastLog(err), time.Now().Add(pause)
		})
		if left {
			h.log.Info("handler asked to be left, and has answered what it had", "next", pause)
		} else {
			complaints.about(state, err, pause, time.Now())
		}
		if next == nil {
			next = h.pause(ctx, pause)
		}
	}
	if next != nil {
		next.abandon(h.stoppedError())
	}
	h.endings.Wait()
	h.set(func(s *Status) { s.State, s.Reason = Stopped, "" })
	close(h.ended)
	h.deliveries.stop(h.stoppedError())
	return nil
}

// goodAge, in pauses after a first failure, is how long a session has to last that ends in good order for it to be none: some
// servers have their clients connect again regularly.
const goodAge = 10

func (h *Host) stoppedError() error { return fmt.Errorf("%s: %w", h.name, errStopped) }

// refused tells a handler that will not run as it is configured from one that fails.
func refused(err error) bool {
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return true
	}
	_, ok := errors.AsType[*confine.Error](err)
	return ok
}

// runOnce runs one process, that of from if there is one. It returns nil when ctx ended or another process takes over,
// which it returns, and else why the process is gone.
func (h *Host) runOnce(ctx context.Context, from *takeover, complaints *complaints) (next *takeover, err error) {
	s, err := h.session(ctx, from)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil
		}
		return nil, err
	}
	began := time.Now()
	h.mu.Lock()
	h.crash.well(began)
	h.mu.Unlock()
	h.set(func(st *Status) {
		st.State, st.Reason, st.Problem = Running, "", ""
		st.Handler, st.Confined, st.PID = s.desc, s.confined(), s.pid()
	})
	attrs := s.desc.attrs()
	if pid := s.pid(); pid != 0 {
		attrs = append(attrs, "pid", pid)
	}
	if confined := s.confined(); confined != "" {
		attrs = append(attrs, "confined", confined)
	}
	h.log.Info("handler ready", attrs...)

	from.report(nil)
	st := &stream{session: s, deliveries: h.deliveries, health: h.health, wedged: h.wedged}
	next, drained, err := st.deliver(ctx, h.takeovers)
	h.mu.Lock()
	h.crash.ended(time.Now())
	h.mu.Unlock()
	switch {
	case err != nil:
		h.set(func(st *Status) { st.State, st.Reason = BackingOff, err.Error() })
		s.end(0)
		err = s.failed(err)
	case next != nil && drained: // it has let go of everything; how it ends concerns nobody
		h.endings.Go(func() { s.end(h.opts.StopTimeout) })
	default:
		s.end(h.opts.StopTimeout)
	}
	if time.Since(began) >= h.opts.BackoffDecay {
		complaints.forget()
	}
	return next, err
}

// session is the process to run now: that of a takeover, or a new one.
func (h *Host) session(ctx context.Context, from *takeover) (*session, error) {
	if from != nil {
		if err := from.session.gone(); err != nil {
			from.abandon(err)
			return nil, err
		}
		h.mu.Lock()
		h.spec = from.session.spec
		h.mu.Unlock()
		return from.session, nil
	}
	h.set(func(s *Status) { s.State = Starting })
	h.mu.Lock()
	spec := h.spec
	h.mu.Unlock()
	s, err := h.launch(ctx, spec, h.opts, h.log)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		s.end(0)
		return nil, s.failed(err)
	}
	return s, nil
}

// pause waits for d, for the end of ctx, or for a process to take over, which it returns.
func (h *Host) pause(ctx context.Context, d time.Duration) *takeover {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case t := <-h.takeovers:
		return t
	}
	return nil
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

// wedged notes that the process gives no answers, or that it does again.
func (h *Host) wedged(reason string) {
	h.deliveries.doubt(reason != "")
	was := Running
	h.set(func(s *Status) {
		was = s.State
		s.State, s.Reason = Running, ""
		if reason != "" {
			s.State, s.Reason = Wedged, reason
		}
	})
	switch {
	case reason != "" && was == Running:
		h.log.Warn("handler is wedged", "reason", reason)
	case reason == "" && was == Wedged:
		h.log.Info("handler answers again")
	}
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
