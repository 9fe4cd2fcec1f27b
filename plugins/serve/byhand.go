package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// The variables of a handler that is run by hand. Its arguments are its own.
const (
	envEvents  = "INFORMD_EVENTS"  // the file to read events from; - is standard input
	envConfig  = "INFORMD_CONFIG"  // the file with the config, as JSON; none: no config
	envTimeout = "INFORMD_TIMEOUT" // the time limit of an event; 0 is none
)

// The exit statuses of a handler that is run by hand.
const (
	allDone   = 0
	notDone   = 1 // of some events
	badOrders = 2 // the events, the config or the environment are wrong
)

// handTimeout is the default of envTimeout.
const handTimeout = 30 * time.Second

// handleByHand runs h without informd. It plays informd's part for the events of a file, and writes
// the verdict on each to out. It returns the exit status once everything that it began has ended,
// except for calls of Handle that do not return.
func handleByHand(ctx context.Context, h handler.Handler, name string, out io.Writer) int {
	s := &service{handler: h, name: name}
	failed, err := runByHand(ctx, s, out)
	s.drainOnce()
	switch {
	case err != nil:
		slog.Error(err.Error())
		return badOrders
	case failed:
		return notDone
	}
	return allDone
}

// mainByHand is handleByHand for a whole process, which it ends.
func mainByHand(h handler.Handler, name string) {
	// What the handler prints belongs to its log, as it does under informd; standard output is for
	// the answers alone.
	out := os.Stdout
	os.Stdout = os.Stderr
	slog.SetDefault(slog.New(readableLog(os.Stderr)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal does what it always does
	os.Exit(handleByHand(ctx, h, name, out))
}

// runByHand reports whether an event was not done. An error is about the input.
func runByHand(ctx context.Context, s *service, out io.Writer) (failed bool, err error) {
	limit := handTimeout
	if text := os.Getenv(envTimeout); text != "" {
		if limit, err = time.ParseDuration(text); err != nil || limit < 0 {
			return false, fmt.Errorf("%s=%s: a time limit is written 30s or 1h; 0 is none",
				envTimeout, text)
		}
	}
	level := os.Getenv(handlerpb.EnvLogLevel)
	if level != "" && new(slog.Level).UnmarshalText([]byte(level)) != nil {
		return false, fmt.Errorf("%s=%s: a level is debug, info, warn or error",
			handlerpb.EnvLogLevel, level)
	}
	config, err := readConfig(os.Getenv(envConfig))
	if err != nil {
		return false, err
	}
	in, err := openEvents(os.Getenv(envEvents))
	if err != nil {
		return false, err
	}
	defer func() { _ = in.close() }()

	desc, err := ask(ctx, s.Describe, &handlerpb.DescribeRequest{}, "Describe")
	if err != nil {
		return false, err
	}
	slog.Info("described", "name", desc.GetName(), "version", desc.GetVersion(),
		"concurrency", desc.GetConcurrency())
	if err := configureByHand(ctx, s, config); err != nil {
		return false, err
	}
	health, err := ask(ctx, s.Health, &handlerpb.HealthRequest{}, "Health")
	switch {
	case err != nil:
		slog.Warn(err.Error())
	case health.GetProblem() != "":
		slog.Warn("the handler reports a problem", "problem", health.GetProblem())
	}

	b := newBench(s.handler, limit, int(desc.GetConcurrency()), out)
	err = b.deliverAll(ctx, in)
	return b.wait(), err
}

func configureByHand(ctx context.Context, s *service, config json.RawMessage) error {
	req := &handlerpb.ConfigureRequest{Config: config, Handler: s.name}
	resp, err := ask(ctx, s.Configure, req, "Configure")
	if err != nil {
		return err
	}
	if len(resp.GetProblems()) == 0 {
		return nil
	}
	for _, p := range resp.GetProblems() {
		slog.Error("config refused", "problem", p.GetMessage())
	}
	return errors.New("the handler refuses its config")
}

// ask makes one of informd's calls. It returns a panic as an error, as under informd.
func ask[Req, Resp any](
	ctx context.Context, f func(context.Context, *Req) (*Resp, error), req *Req, name string,
) (*Resp, error) {
	call := func(ctx context.Context, req any) (any, error) { return f(ctx, req.(*Req)) }
	resp, err := recoverUnary(ctx, req, &grpc.UnaryServerInfo{FullMethod: name}, call)
	if err != nil {
		return nil, fmt.Errorf("%s failed: %s", name, status.Convert(err).Message())
	}
	return resp.(*Resp), nil
}

// readConfig reads a config; without a path there is none.
func readConfig(path string) (json.RawMessage, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	var config json.RawMessage
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("config: %s:%d: %w; it is the manifest's config, as JSON",
			path, lineOf(text, err), err)
	}
	return config, nil
}
