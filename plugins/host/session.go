package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handlerpb"
)

// session is one process, from its launch to its end, or one connection to an endpoint of a remote handler.
type session struct {
	peer
	spec Spec
	opts Options
	log  *slog.Logger
	api  handlerpb.HandlerClient
	desc Description

	// The stream of deliveries, once it is open, and its context, which outlives the one that it was opened in.
	grpc  handlerpb.Handler_DeliverClient
	whole context.Context
	abort context.CancelFunc
}

// peer is who a session is with: a process, or an endpoint.
type peer interface {
	kill(why error)           // is the end of it, at once
	failure(err error) error  // explains err, which came from the connection, by what is known of the peer itself
	exited() <-chan struct{}  // closed once it is gone
	leaving() <-chan struct{} // closed once it asks for no more events, before it is gone; nil: it never does
	end(grace time.Duration)  // has it end in good order within grace, and then at once, and takes away what belonged to it
	pid() int                 // 0: there is no process here
	confined() string         // says what it is confined to; empty if it is to nothing
	lastLines() []string      // what it wrote last
}

// launch starts a process and takes it to the point where it is described and configured. An error is a *RefusedError
// if the handler did not want its config, and says otherwise what is wrong with the handler. Nothing is left then.
func launch(ctx context.Context, spec Spec, opts Options, log *slog.Logger) (*session, error) {
	dir, err := runDir(opts.RunDir)
	if err != nil {
		return nil, err
	}
	exe, err := openExecutable(ctx, spec.Path, spec.SHA256)
	if err != nil {
		return nil, err
	}
	defer exe.close()

	run := newRunner(spec, opts, exe, newLogs(log, opts.LogLinesBurst, opts.LogLinesRate))
	s := &session{peer: run, spec: spec, opts: opts, log: log}
	connect := func() (handlerpb.HandlerClient, error) { return run.connect(dir) }
	return begin(ctx, s, connect, s.introduce, s.settle)
}

// begin connects s and takes it as far as steps go, or ends it.
func begin(ctx context.Context, s *session, connect func() (handlerpb.HandlerClient, error), steps ...func(context.Context) error) (*session, error) {
	if err := s.begin(ctx, connect, steps); err != nil {
		s.end(0)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, s.failed(err)
	}
	return s, nil
}

// failed adds to err what the process wrote last.
func (s *session) failed(err error) error {
	if lines := s.lastLines(); len(lines) > 0 {
		return &processError{err, lines}
	}
	return err
}

func (s *session) begin(ctx context.Context, connect func() (handlerpb.HandlerClient, error), steps []func(context.Context) error) (err error) {
	unwatch := context.AfterFunc(ctx, func() { s.kill(ctx.Err()) })
	defer unwatch()
	if s.api, err = connect(); err != nil {
		return s.failure(err)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// introduce has the handler describe itself.
func (s *session) introduce(ctx context.Context) error {
	if err := s.describe(ctx); err != nil {
		return s.explain("describe", s.opts.DescribeTimeout, err)
	}
	return nil
}

// settle has the handler take its config.
func (s *session) settle(ctx context.Context) error {
	err := s.configure(ctx)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused
	}
	if err != nil {
		return s.explain("configure", s.opts.ConfigureTimeout, err)
	}
	return nil
}

func (s *session) describe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.DescribeTimeout)
	defer cancel()
	d, err := s.api.Describe(ctx, &handlerpb.DescribeRequest{InformdVersion: s.opts.Version},
		grpc.MaxCallRecvMsgSize(handlerpb.MaxDescriptionBytes))
	if err != nil {
		return err
	}
	s.desc = Description{
		Name:        printable(d.GetName(), handlerpb.MaxNameBytes),
		Version:     printable(d.GetVersion(), handlerpb.MaxNameBytes),
		Concurrency: int(d.GetConcurrency()),
		WindowBytes: handlerpb.DefaultWindowBytes,
	}
	if len(d.GetConfigSchema()) <= handlerpb.MaxSchemaBytes { // a larger one is not shown
		s.desc.ConfigSchema = d.GetConfigSchema()
	}
	for _, c := range d.GetCapabilities()[:min(len(d.GetCapabilities()), handlerpb.MaxCapabilities)] {
		s.desc.Capabilities = append(s.desc.Capabilities, printable(c, handlerpb.MaxNameBytes))
	}
	if d.GetWindowBytes() > 0 {
		s.desc.WindowBytes = int64(min(d.GetWindowBytes(), handlerpb.MaxWindowBytes))
	}
	return nil
}

func (s *session) configure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.ConfigureTimeout)
	defer cancel()
	resp, err := s.api.Configure(ctx, &handlerpb.ConfigureRequest{Config: s.spec.Config, Handler: valid(s.spec.Name)},
		grpc.MaxCallRecvMsgSize(handlerpb.MaxProblemsBytes))
	if err != nil {
		return err
	}
	if len(resp.GetProblems()) == 0 {
		return nil
	}
	refused := &RefusedError{}
	for _, p := range resp.GetProblems()[:min(len(resp.GetProblems()), maxProblems)] {
		problem := Problem{Message: printable(p.GetMessage(), handlerpb.MaxReasonBytes)}
		for _, element := range p.GetPath()[:min(len(p.GetPath()), maxPath)] {
			problem.Path = append(problem.Path, printable(element, handlerpb.MaxNameBytes))
		}
		refused.Problems = append(refused.Problems, problem)
	}
	return refused
}

// RefusedError is a handler's refusal of its config, as opposed to a handler that does not work.
type RefusedError struct{ Problems []Problem }

// Problem is one thing that a handler finds wrong with its config.
type Problem struct {
	Path    []string // where: names and indexes that lead there; may be empty
	Message string
}

// What is kept of a refusal.
const (
	maxProblems = 100
	maxPath     = 32
)

func (e *RefusedError) Error() string {
	var b strings.Builder
	b.WriteString("it refuses its config: ")
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteString("; ")
		}
		if len(p.Path) > 0 {
			b.WriteString(strings.Join(p.Path, ".") + ": ")
		}
		b.WriteString(p.Message)
	}
	return b.String()
}

// explain says why a unary call failed.
func (s *session) explain(call string, limit time.Duration, err error) error {
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return fmt.Errorf("it did not answer %s within %v", call, limit)
	case codes.Unavailable, codes.Canceled:
		return s.failure(fmt.Errorf("the connection broke during %s", call))
	case codes.Unimplemented:
		return fmt.Errorf("it does not implement %s", call)
	}
	return fmt.Errorf("%s failed: %s", call, printable(status.Convert(err).Message(), handlerpb.MaxReasonBytes))
}

// open opens the stream of deliveries. A process can refuse to take one, and leave that unsaid.
func (s *session) open(ctx context.Context) (err error) {
	s.whole, s.abort = context.WithCancel(context.WithoutCancel(ctx))
	late := time.AfterFunc(s.opts.HealthTimeout, s.abort)
	unwatch := context.AfterFunc(ctx, s.abort)
	s.grpc, err = s.api.Deliver(s.whole, grpc.ForceCodecV2(protoCodec))
	switch inTime := late.Stop(); {
	case !unwatch():
		err = ctx.Err()
	case !inTime:
		err = fmt.Errorf("it did not take the stream of deliveries within %v", s.opts.HealthTimeout)
	case err != nil:
		err = s.explain("deliver", 0, err)
	}
	if err != nil {
		s.abort()
	}
	return err
}

// gone says how the process ended; nil while it runs.
func (s *session) gone() error {
	select {
	case <-s.exited():
		return s.failed(s.failure(errors.New("it ended")))
	default:
		return nil
	}
}

// end ends the stream of deliveries, if there is one, and the peer.
func (s *session) end(grace time.Duration) {
	if s.abort != nil {
		s.abort()
	}
	s.peer.end(grace)
}
