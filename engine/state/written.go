// Waiting until records are on disk.

package state

import (
	"context"
	"errors"
	"fmt"
)

// ErrNotDurable is wrapped by errors that say that recorded changes are not on disk, and may not be
// soon.
var ErrNotDurable = errors.New("the state is not durable")

// Written returns nil once everything recorded before is on disk and synced. Callers that come
// during a sync share the next one. Written does not wait for a store in trouble, nor longer than
// three seconds. Before Run nothing is written. In these cases the error wraps [ErrNotDurable] and
// says why. If ctx ends, the error is ctx's. Do not call Written between Begin and End.
func (s *Store) Written(ctx context.Context) error {
	if err := s.isWriting(); err != nil {
		return err
	}
	cut := s.last.Load()
	waiting, cancel := context.WithTimeoutCause(ctx, s.opts.limits.patience, errUnwritten)
	defer cancel()
	err := s.started.await(waiting, 1, func() {})
	if err == nil {
		err = s.logged.await(waiting, cut, s.wake.send)
	}
	if err == nil {
		err = s.synced.await(waiting, cut, s.wakeSync.send)
	}
	if errors.Is(err, errUnwritten) {
		return fmt.Errorf("%w: it was not written within %v", ErrNotDurable, s.opts.limits.patience)
	}
	return err
}

var errUnwritten = errors.New("not written in time")

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
