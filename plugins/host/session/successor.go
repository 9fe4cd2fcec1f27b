package session

import (
	"context"
	"fmt"
)

// Successor is a session that is ready to take the place of the current one.
type Successor struct {
	*Session
	taken chan error // buffered for the one result
}

// NewSuccessor makes s a successor. It checks that the handler is healthy, and opens the stream of
// deliveries. After an error the caller ends s.
func NewSuccessor(ctx context.Context, s *Session) (*Successor, error) {
	problem, err := s.askHealth(ctx)
	switch gone := s.Gone(); {
	case gone != nil:
		return nil, gone
	case err != nil:
		return nil, fmt.Errorf("it gave no answer to a health check within %v",
			s.terms.HealthTimeout)
	case problem != "":
		return nil, fmt.Errorf("it reports a problem: %s", problem)
	}
	if err := s.Open(ctx); err != nil {
		return nil, err
	}
	return &Successor{Session: s, taken: make(chan error, 1)}, nil
}

// Taken delivers the result once: nil when the successor has taken over, or why it was abandoned.
func (s *Successor) Taken() <-chan error { return s.taken }

// Report sets the result. Only the first call counts. A nil Successor is legal.
func (s *Successor) Report(err error) {
	if s == nil {
		return
	}
	select {
	case s.taken <- err:
	default:
	}
}

// Abandon ends a successor that cannot take over.
func (s *Successor) Abandon(err error) {
	s.End(0)
	s.Report(err)
}
