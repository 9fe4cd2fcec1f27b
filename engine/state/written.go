package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNotDurable is what errors wrap when what was recorded is not on disk, and may not be soon.
var ErrNotDurable = errors.New("the state is not durable")

// Written has everything be written that was recorded before, and returns nil once that is on disk, and synced. Those who ask
// while a write goes on share the next one. A store in trouble is not waited for, nor is a write that takes longer than three
// seconds, or does not begin for that long, as before Run: the error then wraps [ErrNotDurable] and says why, or is ctx's. It
// is not called between Begin and End.
func (s *Store) Written(ctx context.Context) error {
	if err := s.isWriting(); err != nil {
		return err
	}
	r := s.rounds.join()
	select {
	case s.wake <- struct{}{}:
	default: // it was told, and has not begun
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

// isWriting tells why nothing that is recorded now would be written, if that is so.
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

// rounds are the writes that somebody waits for.
type rounds struct {
	mu   sync.Mutex
	next *round // nil if nobody waits
}

// round is one of them. err is set before over is closed.
type round struct {
	over chan struct{}
	err  error
}

// join has the caller wait for the next write to begin.
func (r *rounds) join() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &round{over: make(chan struct{})}
	}
	return r.next
}

// begin gives who waits for the write that begins; nil if nobody does.
func (r *rounds) begin() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	round := r.next
	r.next = nil
	return round
}

// end tells those who wait how it went. The nil round has none.
func (r *round) end(err error) {
	if r != nil {
		r.err = err
		close(r.over)
	}
}
