package host

import (
	"context"
	"fmt"
	"time"

	"github.com/informd/informd/plugins/host/session"
)

// Reload replaces the process by one of another spec, or of a changed executable. No event is lost,
// sent twice or out of order. The new process is launched beside the old one, described, configured
// and checked for its health. Then the old one gets no more events. Once it has answered those that
// it has, within their time limit, and has drained, the new one takes events, and the old one is
// ended. If the old one fails meanwhile, the new one takes its place at once. So it does while no
// process runs, because the handler is backing off or refused. Before Run is called, Reload waits
// for it.
//
// It returns nil when the new process takes events. The error says why it does not: the old
// process, and the old spec, stay then. The end of ctx aborts the reload until the new process is
// ready; from then on it is completed in any case. The spec's Name, Concurrency and Timeout stay as
// they were. Reloads happen one after the other.
func (h *Host) Reload(ctx context.Context, spec Spec) error {
	select {
	case h.reloading <- struct{}{}:
		defer func() { <-h.reloading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return h.processes.replace(ctx, spec)
}

// replace makes a session of spec take over. One replace runs at a time.
func (s *supervisor) replace(ctx context.Context, spec Spec) error {
	s.set(func(st *Status) { st.Reloading = time.Now() })
	defer s.set(func(st *Status) { st.Reloading = time.Time{} })
	s.mu.Lock()
	old := s.spec
	s.mu.Unlock()
	spec.Name, spec.Concurrency, spec.Timeout = old.Name, old.Concurrency, old.Timeout

	next, err := s.launchSuccessor(ctx, spec)
	if err != nil {
		return fmt.Errorf("the new process: %w", err)
	}
	s.mu.Lock()
	s.offered = spec
	s.mu.Unlock()
	select {
	case s.successors <- next:
	case <-s.ended:
		next.Abandon(errStopped)
	case <-ctx.Done():
		next.Abandon(ctx.Err())
	}
	if err := <-next.Taken(); err != nil {
		return fmt.Errorf("the new process did not take over: %w", err)
	}
	return nil
}

// launchFirst launches the session that run begins with.
func (s *supervisor) launchFirst(ctx context.Context) error {
	s.mu.Lock()
	spec := s.spec
	s.mu.Unlock()
	first, err := s.launchSuccessor(ctx, spec)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first, s.offered = first, spec
	return nil
}

// takeFirst returns the session that launchFirst has launched, or nil. Only the first call does.
func (s *supervisor) takeFirst() *session.Successor {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.first
	s.first = nil
	return first
}

func (s *supervisor) abandonFirst() {
	if first := s.takeFirst(); first != nil {
		first.Abandon(s.stoppedError())
	}
}

// launchSuccessor launches a session that can take over. The end of ctx, or of run, aborts it.
func (s *supervisor) launchSuccessor(ctx context.Context, spec Spec) (*session.Successor, error) {
	launching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // until launchSuccessor returns, at the latest
		select {
		case <-s.ended:
			cancel(errStopped)
		case <-launching.Done():
		}
	}()
	started, err := s.launch(launching, spec, s.opts, s.log)
	if err != nil {
		if launching.Err() != nil {
			err = context.Cause(launching)
		}
		return nil, err
	}
	next, err := session.NewSuccessor(launching, started)
	if err != nil {
		started.End(0)
		return nil, err
	}
	return next, nil
}
