package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handlerpb"
)

// session is one process, from its launch to its end.
type session struct {
	spec   Spec
	opts   Options
	log    *slog.Logger
	logs   *logs
	run    *runner
	client *plugin.Client
	api    handlerpb.HandlerClient
	desc   Description

	// The stream of deliveries, once it is open, and its context, which outlives the one that it was opened in.
	grpc  handlerpb.Handler_DeliverClient
	whole context.Context
	abort context.CancelFunc
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

	s := &session{spec: spec, opts: opts, log: log, logs: newLogs(log, opts.LogLinesBurst, opts.LogLinesRate)}
	s.run = newRunner(spec, opts, exe, s.logs)
	if err := s.begin(ctx, dir); err != nil {
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
	if lines := s.logs.lastLines(); len(lines) > 0 {
		return &processError{err, lines}
	}
	return err
}

func (s *session) begin(ctx context.Context, dir string) error {
	unwatch := context.AfterFunc(ctx, func() { s.run.kill(ctx.Err()) })
	defer unwatch()
	if err := s.connect(dir); err != nil {
		return s.run.failure(err)
	}
	if err := s.describe(ctx); err != nil {
		return s.explain("describe", s.opts.DescribeTimeout, err)
	}
	err := s.configure(ctx)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused
	}
	if err != nil {
		return s.explain("configure", s.opts.ConfigureTimeout, err)
	}
	return nil
}

// connect launches the process and connects to it, within StartTimeout.
func (s *session) connect(dir string) error {
	config := &plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			MagicCookieKey:   handlerpb.CookieKey,
			MagicCookieValue: handlerpb.CookieValue,
		},
		VersionedPlugins: map[int]plugin.PluginSet{
			handlerpb.ProtocolVersion: {handlerpb.PluginName: grpcPlugin{}},
		},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc:       s.run.prepare,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		SkipHostEnv:      true,
		AutoMTLS:         !s.spec.DisableTLS,
		StartTimeout:     24 * time.Hour, // ours ends the process, and thereby the start
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       s.logs.syncStdout,
		SyncStderr:       s.logs.syncStderr,
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(
				grpc.MaxCallRecvMsgSize(handlerpb.MaxResponseBytes),
				grpc.MaxCallSendMsgSize(handlerpb.MaxRequestBytes)),
			grpc.WithInitialWindowSize(flowWindow),
			grpc.WithInitialConnWindowSize(flowWindow),
			grpc.WithStreamInterceptor(withoutBroker),
			grpc.WithContextDialer(s.dial),
		},
	}
	overtime := time.AfterFunc(s.opts.StartTimeout, func() {
		s.run.kill(fmt.Errorf("it was not ready to talk within %v of its start", s.opts.StartTimeout))
	})
	defer overtime.Stop()

	s.client = plugin.NewClient(config)
	if _, err := s.client.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if !s.run.hasTLS() {
		config.TLSConfig = nil // the handler did not take up the offer; the socket directory is ours alone
	}
	protocol, err := s.client.Client()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	api, err := protocol.Dispense(handlerpb.PluginName)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	s.api = api.(handlerpb.HandlerClient)
	if !overtime.Stop() {
		return errors.New("start took too long") // the runner has the reason
	}
	return nil
}

// dial connects to the process's socket, whatever go-plugin took for its path.
func (s *session) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := dialSocket(ctx, s.run.socket())
	if errors.Is(err, errNoSocket) {
		s.run.kill(err)
	}
	return conn, err
}

// withoutBroker keeps go-plugin from opening its broker's stream, which nothing here uses: for each connection that a
// process announces on it, go-plugin has a goroutine wait, as many as there come.
func withoutBroker(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if method == "/plugin.GRPCBroker/StartStream" {
		return nil, status.Error(codes.Unimplemented, "there is no broker")
	}
	return open(ctx, desc, conn, method, opts...)
}

// flowWindow is gRPC's flow control window: a batch and more. A fixed one spares the probing for a better.
const flowWindow = 4 << 20

// grpcPlugin is go-plugin's way to the service.
type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
}

func (grpcPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the host is no handler")
}

func (grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return handlerpb.NewHandlerClient(conn), nil
}

func (s *session) describe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.DescribeTimeout)
	defer cancel()
	d, err := s.api.Describe(ctx, &handlerpb.DescribeRequest{InformdVersion: s.opts.Version})
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
	resp, err := s.api.Configure(ctx, &handlerpb.ConfigureRequest{Config: s.spec.Config, Handler: valid(s.spec.Name)})
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
		return s.run.failure(fmt.Errorf("the connection broke during %s", call))
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
	case <-s.run.process().exited:
		return s.failed(s.run.failure(errors.New("it ended")))
	default:
		return nil
	}
}

func (s *session) pid() int { return s.run.process().pid }

// endGrace is how long the end of a killed process is waited for.
const endGrace = 10 * time.Second

// end has the process exit and takes everything away that belonged to it. Within grace it is asked to, by closing its
// standard input and by go-plugin's Shutdown, then by SIGTERM; then it is killed with its whole group.
func (s *session) end(grace time.Duration) {
	s.logs.hurry()
	if s.abort != nil {
		s.abort()
	}
	if p := s.run.process(); p != nil && grace > 0 {
		p.closeStdin()
		term := time.AfterFunc(grace/2, func() { p.signal(syscall.SIGTERM) })
		defer term.Stop()
		kill := time.AfterFunc(grace, func() { p.signal(syscall.SIGKILL) })
		defer kill.Stop()
	} else {
		s.run.kill(errors.New("ended"))
	}
	s.run.release()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if s.client != nil {
			s.client.Kill()
		}
		if p := s.run.process(); p != nil {
			<-p.exited
		}
	}()
	select {
	case <-ended:
	case <-time.After(grace + endGrace):
		// A process that SIGKILL does not end sleeps in the kernel. The daemon does not wait for it.
		s.log.Error("handler process cannot be killed", "pid", s.run.ID())
	}
	s.logs.end()
	if err := s.run.tidy(); err != nil {
		s.log.Warn("handler left something behind", "error", err)
	}
}
