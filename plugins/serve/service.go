package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

// service answers informd's calls by those interfaces that the handler implements.
type service struct {
	handlerpb.UnimplementedHandlerServer
	handler handler.Handler
	name    string  // for a handler that does not describe itself
	shared  *shared // of a remote handler; nil: informd runs this one
	begun   func()  // called at informd's first call, after go-plugin has started; may be nil
	epochs  epochs  // of all streams

	cache      sync.Once   // the handler was given the cache
	configured atomic.Bool // a config was accepted; events may come
	drained    atomic.Bool // informd asked to let go; the process may end any time
	once       sync.Once
	drainErr   error
}

func (s *service) Describe(
	context.Context, *handlerpb.DescribeRequest,
) (*handlerpb.DescribeResponse, error) {
	if s.begun != nil {
		s.begun()
	}
	var d handler.Description
	if describer, ok := s.handler.(handler.Describer); ok {
		d = describer.Describe()
	}
	if d.Name == "" {
		d.Name = s.name
	}
	s.shared.bound(min(d.Concurrency, maxRunning))
	return &handlerpb.DescribeResponse{
		Name:         wire.Text(d.Name, handlerpb.MaxNameBytes),
		Version:      wire.Text(d.Version, handlerpb.MaxNameBytes),
		Concurrency:  uint32(max(0, min(d.Concurrency, maxRunning))),
		WindowBytes:  uint64(max(0, d.WindowBytes)),
		ConfigSchema: d.ConfigSchema,
		Capabilities: s.capabilities(d),
	}, nil
}

// capabilities returns that the handler takes batches if it does, and what it described.
func (s *service) capabilities(d handler.Description) []string {
	if s.batcher() == nil || slices.Contains(d.Capabilities, handlerpb.CapabilityBatches) {
		return d.Capabilities
	}
	return append([]string{handlerpb.CapabilityBatches}, d.Capabilities...)
}

func (s *service) Configure(
	ctx context.Context, req *handlerpb.ConfigureRequest,
) (*handlerpb.ConfigureResponse, error) {
	if u, ok := s.handler.(handler.CacheUser); ok {
		s.cache.Do(func() { u.UseCache(newCache()) })
	}
	if s.shared != nil {
		return s.shared.configure(ctx, req, s.configure)
	}
	return s.configure(ctx, req)
}

func (s *service) configure(
	ctx context.Context, req *handlerpb.ConfigureRequest,
) (*handlerpb.ConfigureResponse, error) {
	var err error
	config, none := req.GetConfig(), emptyConfig(req.GetConfig())
	if none {
		config = []byte("{}")
	}
	if c, ok := s.handler.(handler.Configurer); ok {
		err = c.Configure(ctx, config)
	} else if !none {
		err = errors.New("this handler takes no config: remove it from the manifest")
	}
	problems := problems(err)
	s.configured.Store(len(problems) == 0)
	return &handlerpb.ConfigureResponse{Problems: problems}, nil
}

// emptyConfig reports whether a config is empty: no text, null or {}.
func emptyConfig(config []byte) bool {
	config = bytes.TrimSpace(config)
	if len(config) == 0 || bytes.Equal(config, []byte("null")) {
		return true
	}
	return config[0] == '{' && len(bytes.TrimSpace(config[1:])) == 1 && config[len(config)-1] == '}'
}

// maxProblems bounds the problems of one config.
const maxProblems = 100

// problems returns one problem for each error that errors.Join has joined, also in several steps.
func problems(err error) (all []*handlerpb.Problem) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok && isJoin(err, joined.Unwrap()) {
		for _, e := range joined.Unwrap() {
			all = append(all, problems(e)...)
		}
		return all[:min(len(all), maxProblems)]
	}
	text := wire.Text(err.Error(), handlerpb.MaxReasonBytes)
	return []*handlerpb.Problem{{Message: text}}
}

// isJoin reports whether err comes from errors.Join. A fmt.Errorf with several %w has words of its
// own, which would be lost.
func isJoin(err error, parts []error) bool {
	return len(parts) > 0 && err.Error() == errors.Join(parts...).Error()
}

func (s *service) Health(
	ctx context.Context, _ *handlerpb.HealthRequest,
) (*handlerpb.HealthResponse, error) {
	resp := &handlerpb.HealthResponse{}
	if c, ok := s.handler.(handler.HealthChecker); ok {
		if err := c.Health(ctx); err != nil {
			resp.Problem = wire.Text(err.Error(), handlerpb.MaxReasonBytes)
		}
	}
	return resp, nil
}

func (s *service) Drain(
	ctx context.Context, _ *handlerpb.DrainRequest,
) (*handlerpb.DrainResponse, error) {
	if s.shared != nil {
		return &handlerpb.DrainResponse{}, nil // others may come: the process goes on
	}
	if err := s.drain(ctx); err != nil {
		return nil, status.Error(codes.Internal, wire.Text(err.Error(), handlerpb.MaxReasonBytes))
	}
	return &handlerpb.DrainResponse{}, nil
}

// drain calls the handler's Drain once in the life of the process.
func (s *service) drain(ctx context.Context) error {
	s.once.Do(func() {
		if d, ok := s.handler.(handler.Drainer); ok && s.configured.Load() {
			s.drainErr = d.Drain(ctx)
		}
		s.drained.Store(true)
	})
	return s.drainErr
}

// lastDrain is how long a handler has to drain when informd is gone.
const lastDrain = 5 * time.Second

// drainOnce drains the handler when informd is gone. It returns within lastDrain, whatever the
// handler does.
func (s *service) drainOnce() {
	ctx, cancel := context.WithTimeout(context.Background(), lastDrain)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				logPanic(ctx, "Drain", v)
			}
		}()
		if err := s.drain(ctx); err != nil {
			slog.Error("drain failed", "error", err)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// recoverUnary turns a handler's panic into an error of the call.
func recoverUnary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (resp any, err error) {
	defer func() {
		if v := recover(); v != nil {
			logPanic(ctx, info.FullMethod, v)
			resp, err = nil, status.Error(codes.Internal, panicReason(v))
		}
	}()
	return next(ctx, req)
}

// logPanic writes a panic to the handler's own log, with its stack, the event that ctx is about,
// and more attributes.
func logPanic(ctx context.Context, in string, v any, more ...any) {
	attrs := append([]any{"in", in, "value", wire.Text(fmt.Sprint(v), handlerpb.MaxReasonBytes)},
		more...)
	for _, a := range aboutEventOf(ctx) { // the program may have a logger of its own
		attrs = append(attrs, a)
	}
	stack := wire.Text(stackOfPanic(string(debug.Stack())), maxStack)
	slog.ErrorContext(ctx, "panic", append(attrs, stackKey, stack)...)
}

// stackOfPanic returns a stack without the calls that report the panic: it begins where the panic
// was.
func stackOfPanic(stack string) string {
	head, calls, _ := strings.Cut(stack, "\n")
	if at := strings.LastIndex(calls, "\npanic("); at >= 0 {
		// A call takes two lines: the function, and its place in the source.
		if lines := strings.SplitN(calls[at+1:], "\n", 3); len(lines) == 3 {
			return head + "\n" + lines[2]
		}
	}
	return stack
}

const (
	stackKey = "stack"
	// maxStack keeps a panic's line below the 8 KiB at which informd cuts lines: a line that was
	// cut is not JSON, and loses its level. The innermost calls come first.
	maxStack = 5 << 10
)
