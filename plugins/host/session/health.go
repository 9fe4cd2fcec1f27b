package session

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handlerpb"
)

// maxMisses is how many health checks in a row a handler may leave without an answer.
const maxMisses = 2

// checkHealth asks the handler regularly how it is. What matters is that it answers at all: if it
// does not, it counts as wedged, and checkHealth asks again at once. If it misses that check too,
// it is ended.
func (s *delivering) checkHealth(working context.Context) error {
	ticker := time.NewTicker(s.terms.HealthInterval)
	defer ticker.Stop()
	for misses := 0; ; {
		problem, err := s.askHealth(working)
		switch {
		case working.Err() != nil:
			return nil
		case err == nil:
			misses = 0
			s.setWedged("")
			s.observer.Health(problem)
		case s.Gone() != nil: // that is why there is no answer
			return s.Gone()
		default:
			if misses++; misses == maxMisses {
				return fmt.Errorf("it hangs: %d health checks in a row had no answer within %v",
					maxMisses, s.terms.HealthTimeout)
			}
			s.setWedged(fmt.Sprintf("a health check had no answer within %v",
				s.terms.HealthTimeout))
			continue
		}
		select {
		case <-working.Done():
			return nil
		case <-s.Leaving(): // it accepts no calls any more; time limits guard what it still has
			<-working.Done()
			return nil
		case <-ticker.C:
		}
	}
}

func (s *delivering) setWedged(reason string) {
	s.consumer.Doubt(reason != "")
	s.observer.Wedged(reason)
}

// askHealth returns what the handler reports; empty: it is well. It returns an error if no answer
// came, or not in time. A handler that does not implement Health is healthy.
func (s *Session) askHealth(working context.Context) (problem string, err error) {
	ctx, cancel := context.WithTimeout(working, s.terms.HealthTimeout)
	defer cancel()
	resp, err := s.api.Health(ctx, &handlerpb.HealthRequest{})
	switch code := status.Code(err); {
	case code == codes.OK:
		return s.said(resp.GetProblem()), nil
	case code == codes.Unimplemented:
		return "", nil
	case ctx.Err() != nil:
		return "", err
	case code == codes.Unavailable || code == codes.Canceled:
		// The connection has ended, or the handler itself returned such an error.
		select {
		case <-s.Exited():
			return "", err
		case <-working.Done():
			return "", err
		case <-s.Leaving():
			return "", nil
		case <-time.After(exitNews):
		}
	}
	return s.said(status.Convert(err).Message()), nil
}

// exitNews is how long the news of a peer's end may take after its connection broke.
const exitNews = time.Second
