package serve

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handlerpb"
)

// shared is the state that all connections to one remote handler share. A handler that informd runs
// has one connection and a nil shared, whose methods let everything pass.
type shared struct {
	configuring sync.Mutex // held in Configure and while a stream begins; taken before mu

	mu      sync.Mutex // guards the rest
	config  []byte     // the config that was accepted
	taken   bool       // a config was accepted
	round   int        // how many configs were accepted
	streams int
	running map[object]chan struct{} // events with the handler, of all streams; closed at their end
	slots   chan struct{}            // a place for each event that it takes at once; nil: no limit
}

func newShared() *shared { return &shared{running: make(map[object]chan struct{})} }

// caller identifies a connection. The contexts of its calls hold it.
type caller struct {
	credentials.TLSInfo
	round int // of the config that it brought; guarded by shared.mu
}

// callers are credentials that give each connection its caller.
type callers struct {
	credentials.TransportCredentials
}

func (c callers) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return conn, info, err
	}
	tls, ok := info.(credentials.TLSInfo)
	if !ok {
		return conn, info, errors.New("not TLS")
	}
	return conn, &caller{TLSInfo: tls}, nil
}

func (c callers) Clone() credentials.TransportCredentials {
	return callers{c.TransportCredentials.Clone()}
}

func callerOf(ctx context.Context) *caller {
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := p.AuthInfo.(*caller); ok {
			return c
		}
	}
	return &caller{}
}

// configure gives a config to the handler, unless the handler already has it.
func (s *shared) configure(
	ctx context.Context, req *handlerpb.ConfigureRequest,
	configure func(context.Context, *handlerpb.ConfigureRequest) (
		*handlerpb.ConfigureResponse, error),
) (*handlerpb.ConfigureResponse, error) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	s.mu.Lock()
	same, streams := s.taken && bytes.Equal(s.config, req.GetConfig()), s.streams
	if same {
		callerOf(ctx).round = s.round
	} else if streams == 0 {
		s.taken = false
	}
	s.mu.Unlock()
	switch {
	case same:
		return &handlerpb.ConfigureResponse{}, nil
	case streams > 0:
		return nil, status.Error(codes.FailedPrecondition, "it is in use with another config, "+
			"by another informd or by a connection that has not ended yet")
	}
	resp, err := configure(ctx, req)
	if err == nil && len(resp.GetProblems()) == 0 {
		s.mu.Lock()
		s.config, s.taken = bytes.Clone(req.GetConfig()), true
		s.round++
		callerOf(ctx).round = s.round
		s.mu.Unlock()
	}
	return resp, err
}

// begin reports whether a stream may begin, and counts it: the handler must have the config that
// the same caller brought.
func (s *shared) begin(ctx context.Context) bool {
	if s == nil {
		return true
	}
	s.configuring.Lock()
	defer s.configuring.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	may := s.taken && callerOf(ctx).round == s.round
	if may {
		s.streams++
	}
	return may
}

func (s *shared) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams--
}

// bound sets how many events the handler takes at once, over all streams; 0: any number. Only the
// first call counts.
func (s *shared) bound(n int) {
	if s == nil || n <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == nil {
		s.slots = make(chan struct{}, n)
	}
}

// take waits until the handler may have an event of o: it has no other event of o, from any stream,
// and it has room for one more. The caller calls free afterwards. An error says what take was
// waiting for when ctx ended.
func (s *shared) take(ctx context.Context, o object) error {
	if s == nil {
		return nil
	}
	slots, err := s.claim(ctx, o)
	if err != nil || slots == nil {
		return err
	}
	select {
	case slots <- struct{}{}:
		return nil
	default: // only now is ctx worth its cost
	}
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		s.unclaim(o)
		return errors.New("the handler had as many events as it takes, from several connections")
	}
}

func (s *shared) claim(ctx context.Context, o object) (slots chan struct{}, err error) {
	for {
		s.mu.Lock()
		other := s.running[o]
		if other == nil {
			s.running[o] = make(chan struct{})
			slots = s.slots
			s.mu.Unlock()
			return slots, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, errors.New("the handler still had an event of this object, " +
				"from another connection")
		}
	}
}

func (s *shared) unclaim(o object) (slots chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.running[o])
	delete(s.running, o)
	return s.slots
}

func (s *shared) free(o object) {
	if s == nil {
		return
	}
	if slots := s.unclaim(o); slots != nil {
		<-slots
	}
}
