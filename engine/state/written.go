package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNotDurable is wrapped by errors that say that recorded changes are not on disk, and may not be
// soon.
var ErrNotDurable = errors.New("the state is not durable")

// Written starts a write of everything recorded before, and returns nil once that is on disk and
// synced. Callers that come during a write share the next one. Written does not wait for a store in
// trouble, nor longer than three seconds for a write to begin or to end. Before Run no write
// begins. In these cases the error wraps [ErrNotDurable] and says why. If ctx ends, the error is
// ctx's. Do not call Written between Begin and End.
func (s *Store) Written(ctx context.Context) error {
	if err := s.isWriting(); err != nil {
		return err
	}
	r := s.rounds.join()
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is pending
	}
	patience := time.NewTimer(s.opts.limits.patience)
	defer patience.Stop()
	select {
	case <-r.over:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-patience.C:
		return fmt.Errorf("%w: it was not written within %v", ErrNotDurable, s.opts.limits.patience)
	}
}

// isWriting returns why the store would not write a change that is recorded now, or nil.
func (s *Store) isWriting() error {
	d := s.db.Load()
	status := Status{}
	s.health.describe(&status)
	switch {
	case status.Trouble != "":
		return fmt.Errorf("%w: %s", ErrNotDurable, status.Trouble)
	case d == nil || d.readOnly != nil || s.broken.Load():
		return fmt.Errorf("%w: it cannot be written", ErrNotDurable)
	}
	return nil
}

// rounds are the writes that callers wait for.
type rounds struct {
	mu   sync.Mutex
	next *round // nil if nobody waits
}

// round is one write that callers wait for. err is set before over is closed.
type round struct {
	over chan struct{}
	err  error
}

// join returns the round of the next write.
func (r *rounds) join() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &round{over: make(chan struct{})}
	}
	return r.next
}

// begin returns the round of the write that begins; nil if nobody waits for it.
func (r *rounds) begin() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	round := r.next
	r.next = nil
	return round
}

// end tells all waiting callers how the write went. A nil round has no callers.
func (r *round) end(err error) {
	if r != nil {
		r.err = err
		close(r.over)
	}
}
