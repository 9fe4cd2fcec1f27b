package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

// Peer is the other end of a session: a process, or a connection to an endpoint. All methods may be
// called concurrently.
type Peer interface {
	// Connect makes the connection. It is called once, before all other methods but Kill and Hide.
	Connect() (handlerpb.HandlerClient, error)
	// Hide is called before the peer can see objects. From then on, text that it writes is not logged
	// while may returns true, because it may quote a Secret. may is called from any goroutine.
	Hide(may func() bool)
	// Kill ends the peer at once. The first reason counts.
	Kill(why error)
	// Explain returns a better reason for err, which came from the connection, if the peer knows
	// one. A reason that quotes the peer has a method Unquoted, which returns it without that.
	Explain(err error) error
	// Exited is closed once the peer is gone.
	Exited() <-chan struct{}
	// Leaving is closed once the peer asks for no more events, before it is gone. nil: it never
	// does.
	Leaving() <-chan struct{}
	// End ends the peer in good order within grace, then at once, and removes what belonged to it.
	// It is called once.
	End(grace time.Duration)
	// PID is the process id; 0 if there is no process on this machine.
	PID() int
	// Confined says what the process is confined to; empty for nothing.
	Confined() string
	// LastLines returns what the process wrote last on standard error, oldest first.
	LastLines() []string
}

// Terms say how to treat a handler. They do not change during a session. They have many fields because
// they are what a manifest and the host's limits say together.
type Terms struct {
	Name        string          // of the Handler manifest
	Config      json.RawMessage // of the manifest; empty where it has none
	Concurrency int             // events that may be with the handler; 0: see Description.Window
	Timeout     time.Duration   // for one event, from its sending on
	Attempts    int             // failures after which an event is dead; 0: it never is
	Version     string          // of informd
	Sees        bool            // the peer may have seen objects before it has the stream of deliveries
	// Confidential reports whether the handler may see text of Secrets, in events or in the cache. It
	// is called from any goroutine.
	Confidential func() bool

	DescribeTimeout  time.Duration
	ConfigureTimeout time.Duration
	HealthInterval   time.Duration // from one health check to the next
	HealthTimeout    time.Duration // of one health check; of the opening of the stream, too
	LateTimeout      time.Duration // from time limit to answer; 0: 4 time limits, at least 1 min
	DrainTimeout     time.Duration // for the last answers and the drain together
}

// Session is one process from its launch to its end, or one connection.
type Session struct {
	Peer
	terms       Terms
	log         *slog.Logger
	api         handlerpb.HandlerClient
	description Description

	// Set by Open.
	stream handlerpb.Handler_DeliverClient
	whole  context.Context // of the stream; it outlives the context of Open
	abort  context.CancelFunc
}

// Begin connects to the peer and asks it to describe itself, and to take its config if configure is
// set. The error is a *RefusedError if the handler refuses the config. After an error the peer has
// ended; otherwise the caller ends the session.
func Begin(
	ctx context.Context, peer Peer, terms Terms, configure bool, log *slog.Logger,
) (*Session, error) {
	s := &Session{Peer: peer, terms: terms, log: log}
	if err := s.begin(ctx, configure); err != nil {
		s.End(0)
		return nil, s.WithLastLines(err)
	}
	return s, nil
}

func (s *Session) begin(ctx context.Context, configure bool) (err error) {
	unwatch := context.AfterFunc(ctx, func() { s.Kill(ctx.Err()) })
	defer unwatch()
	if s.terms.Sees {
		s.Hide(s.terms.Confidential)
	}
	if s.api, err = s.Connect(); err != nil {
		return s.Explain(err)
	}
	if err := s.describe(ctx); err != nil {
		return s.explain("describe", s.terms.DescribeTimeout, err)
	}
	if !configure {
		return nil
	}
	err = s.configure(ctx)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused
	}
	if err != nil {
		return s.explain("configure", s.terms.ConfigureTimeout, err)
	}
	return nil
}

// Description returns what the handler said about itself.
func (s *Session) Description() Description { return s.description }

func (s *Session) describe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.terms.DescribeTimeout)
	defer cancel()
	d, err := s.api.Describe(ctx, &handlerpb.DescribeRequest{InformdVersion: s.terms.Version},
		grpc.MaxCallRecvMsgSize(handlerpb.MaxDescriptionBytes))
	if err != nil {
		return err
	}
	s.description = describe(d)
	return nil
}

func (s *Session) configure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.terms.ConfigureTimeout)
	defer cancel()
	name := wire.Text(s.terms.Name, len(s.terms.Name)*3)
	resp, err := s.api.Configure(ctx,
		&handlerpb.ConfigureRequest{Config: s.terms.Config, Handler: name},
		grpc.MaxCallRecvMsgSize(handlerpb.MaxProblemsBytes))
	if err != nil {
		return err
	}
	if len(resp.GetProblems()) == 0 {
		return nil
	}
	if s.isConfidential() {
		return &RefusedError{[]Problem{{Message: withheld}}}
	}
	return refusal(resp.GetProblems())
}

// explain says why a call failed.
func (s *Session) explain(call string, limit time.Duration, err error) error {
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return fmt.Errorf("it did not answer %s within %v", call, limit)
	case codes.Unavailable, codes.Canceled:
		return s.Explain(fmt.Errorf("the connection broke during %s", call))
	case codes.Unimplemented:
		return fmt.Errorf("it does not implement %s", call)
	}
	return fmt.Errorf("%s failed: %s", call, s.said(status.Convert(err).Message()))
}

// Open opens the stream of deliveries. A handler can fail to accept it without an error, so that
// has a time limit, too.
func (s *Session) Open(ctx context.Context) (err error) {
	s.Hide(s.terms.Confidential)
	s.whole, s.abort = context.WithCancel(context.WithoutCancel(ctx))
	late := time.AfterFunc(s.terms.HealthTimeout, s.abort)
	unwatch := context.AfterFunc(ctx, s.abort)
	s.stream, err = s.api.Deliver(s.whole, grpc.ForceCodecV2(wire.Codec()))
	switch inTime := late.Stop(); {
	case !unwatch():
		err = ctx.Err()
	case !inTime:
		err = fmt.Errorf("it did not take the stream of deliveries within %v",
			s.terms.HealthTimeout)
	case err != nil:
		err = s.explain("deliver", 0, err)
	}
	if err != nil {
		s.abort()
	}
	return err
}

// Gone returns how the peer ended, or nil while it runs.
func (s *Session) Gone() error {
	select {
	case <-s.Exited():
		return s.WithLastLines(s.Explain(errors.New("it ended")))
	default:
		return nil
	}
}

// End ends the stream of deliveries, if there is one, and the peer.
func (s *Session) End(grace time.Duration) {
	if s.abort != nil {
		s.abort()
	}
	s.Peer.End(grace)
}

// FailedError is the reason why a process failed, with its last lines on standard error.
type FailedError struct {
	error
	LastLines []string
}

// Unwrap returns the reason.
func (e *FailedError) Unwrap() error { return e.error }

// WithLastLines adds the peer's last lines to err, if there are any.
func (s *Session) WithLastLines(err error) error {
	if lines := s.LastLines(); len(lines) > 0 {
		return &FailedError{err, lines}
	}
	return err
}
