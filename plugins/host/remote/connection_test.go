package remote

import (
	"context"
	"testing"

	"google.golang.org/grpc/connectivity"
)

// states is a connection that goes from one to the next when it is waited for.
type states []connectivity.State

func (s *states) GetState() connectivity.State { return (*s)[0] }

func (s *states) WaitForStateChange(_ context.Context, from connectivity.State) bool {
	if (*s)[0] == from {
		*s = (*s)[1:]
	}
	return true
}

// A connection that gRPC does not call ready yet, although it is, does not count as left.
func TestAwaitLeaving(t *testing.T) {
	for _, s := range []states{
		{connectivity.Connecting, connectivity.Ready, connectivity.Idle},
		{connectivity.Ready, connectivity.Idle},
		{connectivity.Idle},
		{connectivity.Ready, connectivity.Shutdown},
		{connectivity.Connecting, connectivity.TransientFailure}, // it was left, and a call had it connect again
	} {
		left := s
		awaitLeaving(&left)
		if len(left) != 1 {
			t.Errorf("of %v, it waits for %v", s, left)
		}
	}
}
