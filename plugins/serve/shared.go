package serve

import (
	"bytes"
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handlerpb"
)

// shared is what the connections to one remote handler have in common. A handler that informd runs has one connection and
// none of this: the methods of the nil shared let everything pass.
type shared struct {
	configuring sync.Mutex // held during a call of Configure, and while a stream begins

	mu      sync.Mutex
	config  []byte // that was accepted
	taken   bool   // one was
	streams int
	running map[object]bool // events that the handler has, over all streams; as many as these allow
}

func newShared() *shared { return &shared{running: make(map[object]bool)} }

// configure hands a config to the handler, if it is another one than it has.
func (s *shared) configure(ctx context.Context, req *handlerpb.ConfigureRequest,
	configure func(context.Context, *handlerpb.ConfigureRequest) (*handlerpb.ConfigureResponse, error),
) (*handlerpb.ConfigureResponse, error) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	s.mu.Lock()
	same, streams := s.taken && bytes.Equal(s.config, req.GetConfig()), s.streams
	if !same && streams == 0 {
		s.taken = false
	}
	s.mu.Unlock()
	switch {
	case same:
		return &handlerpb.ConfigureResponse{}, nil
	case streams > 0:
		return nil, status.Error(codes.FailedPrecondition, "it is in use with another config, by another informd or by a connection that has not ended yet")
	}
	resp, err := configure(ctx, req)
	if err == nil && len(resp.GetProblems()) == 0 {
		s.mu.Lock()
		s.config, s.taken = bytes.Clone(req.GetConfig()), true
		s.mu.Unlock()
	}
	return resp, err
}

// begin notes a stream, and says whether it may begin.
func (s *shared) begin() bool {
	if s == nil {
		return true
	}
	s.configuring.Lock()
	defer s.configuring.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken {
		s.streams++
	}
	return s.taken
}

func (s *shared) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams--
}

// claim tells whether an event of o may be handled, as no other stream's is; it is given back by free.
func (s *shared) claim(o object) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[o] {
		return false
	}
	s.running[o] = true
	return true
}

func (s *shared) free(o object) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, o)
}
