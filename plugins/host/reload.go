package host

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// takeover is a process that is to take the place of the present one.
type takeover struct {
	session *session
	done    chan error // has room for the one outcome: nil once the process takes events
}

// report tells Reload what came of it. The first call counts. The nil takeover is no takeover.
func (t *takeover) report(err error) {
	if t == nil {
		return
	}
	select {
	case t.done <- err:
	default:
	}
}

// abandon ends a process that comes too late.
func (t *takeover) abandon(err error) {
	t.session.end(0)
	t.report(err)
}

// Reload has a process of another spec, or of a changed executable, take the place of the present one, with no event
// lost, sent twice or out of order. The new process is launched beside the old one, described, configured and found healthy.
// Then nothing more is sent to the old one; when it has answered what is with it, within the time limit of those events,
// and has drained, the new one takes events, and the old one is ended. Should it fail meanwhile, the new one is there.
// Where no process runs, because the handler is backing off or refused, the new one begins at once; before Run it waits.
//
// It returns nil when the new process takes events. An error says why it does not: the old one, or the old spec, stays. ctx
// ends what is under way until the new process is ready; from then on it is taken up in any case. Of the spec, Name,
// Concurrency and Timeout stay as they were. Reloads come one after the other.
func (h *Host) Reload(ctx context.Context, spec Spec) error {
	select {
	case h.reloading <- struct{}{}:
		defer func() { <-h.reloading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	h.set(func(s *Status) { s.Reloading = time.Now() })
	defer h.set(func(s *Status) { s.Reloading = time.Time{} })
	h.mu.Lock()
	spec.Name, spec.Concurrency, spec.Timeout = h.spec.Name, h.spec.Concurrency, h.spec.Timeout
	h.mu.Unlock()

	launching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // until the launch ends, by cancel at the latest
		select {
		case <-h.ended:
			cancel(errStopped)
		case <-launching.Done():
		}
	}()
	s, err := h.launch(launching, spec, h.opts, h.log)
	if err != nil {
		if launching.Err() != nil {
			err = context.Cause(launching)
		}
		return fmt.Errorf("the new process: %w", err)
	}
	t := &takeover{session: s, done: make(chan error, 1)}
	if err := s.fit(launching); err != nil {
		t.abandon(err)
		return fmt.Errorf("the new process: %w", err)
	}
	select {
	case h.takeovers <- t:
	case <-h.ended:
		t.abandon(errStopped)
	case <-ctx.Done():
		t.abandon(ctx.Err())
	}
	if err := <-t.done; err != nil {
		return fmt.Errorf("the new process did not come to take over: %w", err)
	}
	return nil
}

// fit tells why a process is not fit to take over; nil: it is.
func (s *session) fit(ctx context.Context) error {
	problem, err := s.askHealth(ctx)
	switch gone := s.gone(); {
	case gone != nil:
		return gone
	case err != nil:
		return fmt.Errorf("it gave no answer to a health check within %v", s.opts.HealthTimeout)
	case problem != "":
		return fmt.Errorf("it reports a problem: %s", problem)
	}
	return s.open(ctx)
}

// errSuperseded is why events are lost to a process that would not give them up to the next one.
var errSuperseded = errors.New("another process took over")
