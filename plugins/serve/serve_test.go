//go:build go1.25

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

func TestStartedByHand(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = []string{"BY_HAND=1", "GORACE=atexit_sleep_ms=0"}
	out, err := c.CombinedOutput()
	if c.ProcessState.ExitCode() != 1 {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"serve.test is a handler for informd", "kind: Handler", "informd check --handlers"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

// full implements everything; what it does is up to the test.
type full struct {
	handler.Func
	configure func(json.RawMessage) error
	health    error
	drains    int
}

func (f *full) Describe() handler.Description {
	return handler.Description{Version: "1", Concurrency: -5, WindowBytes: -5}
}
func (f *full) Configure(_ context.Context, c json.RawMessage) error { return f.configure(c) }
func (f *full) Health(context.Context) error                         { return f.health }
func (f *full) Drain(context.Context) error                          { f.drains++; return nil }

func TestDescribe(t *testing.T) {
	// The executable's name stands in for one that is not given; nonsense is no limit.
	got, err := (&service{handler: &full{}, name: "oncall"}).Describe(t.Context(), nil)
	if err != nil || got.GetName() != "oncall" || got.GetVersion() != "1" || got.GetConcurrency() != 0 || got.GetWindowBytes() != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	got, err = (&service{handler: handler.Func(nil), name: "oncall"}).Describe(t.Context(), nil)
	if err != nil || got.GetName() != "oncall" || len(got.GetCapabilities()) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

// informd learns that a handler takes batches, but a remote one gets none.
func TestDescribeBatches(t *testing.T) {
	for _, c := range []struct {
		shared *shared
		want   []string
	}{{nil, []string{handlerpb.CapabilityBatches}}, {newShared(), nil}} {
		s := &service{handler: batching{}, shared: c.shared}
		got, err := s.Describe(t.Context(), nil)
		if err != nil || !slices.Equal(got.GetCapabilities(), c.want) {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

type batching struct{ handler.Func }

func (batching) HandleBatch(context.Context, []handler.Event) []handler.Result { return nil }

func TestConfigure(t *testing.T) {
	returns := func(err error) handler.Handler {
		return &full{configure: func(json.RawMessage) error { return err }}
	}
	for _, c := range []struct {
		why     string
		handler handler.Handler
		config  string
		want    []string
	}{
		{"accepted", returns(nil), `{"a":1}`, nil},
		{"one error, one problem", returns(errors.New("no")), ``, []string{"no"}},
		{"joined errors are several", returns(errors.Join(errors.New("a"), errors.New("b"))), ``, []string{"a", "b"}},
		{"also in several steps", returns(errors.Join(errors.Join(errors.New("a"), errors.New("b")), errors.New("c"))), ``, []string{"a", "b", "c"}},
		{"an error's own words stay", returns(fmt.Errorf("both %w and %w", errors.New("a"), errors.New("b"))), ``, []string{"both a and b"}},
		{"no Configure, no config", handler.Func(nil), ``, nil},
		{"null is none", handler.Func(nil), ` null `, nil},
		{"nothing in braces is none", handler.Func(nil), "{ \n}", nil},
		{"no Configure, but a config", handler.Func(nil), `{"a":1}`, []string{"this handler takes no config: remove it from the manifest"}},
		{"no Configure, but a list", handler.Func(nil), `[]`, []string{"this handler takes no config: remove it from the manifest"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			s := &service{handler: c.handler}
			resp, err := s.Configure(t.Context(), &handlerpb.ConfigureRequest{Config: []byte(c.config)})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range resp.GetProblems() {
				got = append(got, p.GetMessage())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if s.configured.Load() != (c.want == nil) {
				t.Error("events may come although the config was refused, or the reverse")
			}
		})
	}
}

func TestHealthAndDrain(t *testing.T) {
	f := &full{health: errors.New("the bus is down"), configure: func(json.RawMessage) error { return nil }}
	s := &service{handler: f}
	if resp, err := s.Health(t.Context(), nil); err != nil || resp.GetProblem() != "the bus is down" {
		t.Errorf("got %v, %v", resp, err)
	}
	if _, err := s.Configure(t.Context(), &handlerpb.ConfigureRequest{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // informd's call, and its end after it
		if _, err := s.Drain(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	s.drainOnce()
	if f.drains != 1 {
		t.Errorf("drained %d times", f.drains)
	}
}

// drainer drains as a test wants it to.
type drainer struct {
	handler.Func
	drain func(context.Context) error
}

func (d *drainer) Drain(ctx context.Context) error { return d.drain(ctx) }

func TestDrain(t *testing.T) {
	s := &service{handler: &drainer{drain: func(context.Context) error { return errors.New("the outbox is full") }}}
	if _, err := s.Drain(t.Context(), nil); err != nil {
		t.Errorf("what was not configured has nothing to let go of: %v", err)
	}
	s = &service{handler: s.handler}
	s.configured.Store(true)
	if _, err := s.Drain(t.Context(), nil); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "the outbox is full") {
		t.Errorf("got %v", err)
	}
}

// When informd is gone, a Drain has a few seconds, and does not keep the process beyond them.
func TestLastDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		told := make(chan time.Duration, 1)
		began := time.Now()
		s := &service{handler: &drainer{drain: func(ctx context.Context) error {
			<-ctx.Done()
			told <- time.Since(began)
			<-release
			return nil
		}}}
		s.configured.Store(true)
		s.drainOnce()
		if took := time.Since(began); took != lastDrain {
			t.Errorf("it was left after %v, want %v", took, lastDrain)
		}
		if after := <-told; after != lastDrain {
			t.Errorf("its context ended after %v, want %v", after, lastDrain)
		}
		close(release)
	})
}

func TestUnaryPanic(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.DiscardHandler))
	f := &full{configure: func(json.RawMessage) error { panic("no") }}
	api := connect(t, &service{handler: f})
	if _, err := api.Configure(t.Context(), &handlerpb.ConfigureRequest{}); err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("got %v", err)
	}
	if _, err := api.Health(t.Context(), &handlerpb.HealthRequest{}); err != nil {
		t.Errorf("it did not survive: %v", err)
	}
}

// The line of a panic is one that informd takes whole, however deep the stack.
func TestDeepPanic(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	var log bytes.Buffer
	slog.SetDefault(slog.New(logHandler(&log)))
	var dig func(depth int) int
	dig = func(depth int) int {
		if depth == 0 {
			panic(strings.Repeat("x", 5000))
		}
		return dig(depth-1) + 1
	}
	handle(t.Context(), handler.Func(func(context.Context, handler.Event) (handler.Answer, error) {
		dig(1000)
		return handler.Answer{}, nil
	}), handler.Event{})
	var line struct {
		Level string `json:"@level"`
		Stack string `json:"stack"`
	}
	if err := json.Unmarshal(log.Bytes(), &line); err != nil || log.Len() > 8<<10 || line.Level != "error" || !strings.Contains(line.Stack, "serve_test.go") {
		t.Errorf("%d bytes, %v: %s", log.Len(), err, log.String())
	}
}

// A line about an event says which one, if it is logged with the context of Handle, or of one that
// is derived from it. So does the line of a panic, whose stack begins where the panic was.
func TestLogOfEvent(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	var log bytes.Buffer
	slog.SetDefault(slog.New(logHandler(&log)))
	ev := handler.Event{Rule: "r", Namespace: "shop", Name: "web", ID: "r/1"}
	ctx := &callContext{parent: t.Context(), event: &ev}
	handle(ctx, handler.Func(func(ctx context.Context, _ handler.Event) (handler.Answer, error) {
		within, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		slog.InfoContext(within, "counted", "pods", 3)
		slog.With("team", "a").WarnContext(ctx, "mine", "rule", "own")
		slog.Info("without it")
		panic("ouch")
	}), ev)
	handle(&callContext{parent: t.Context(), event: &handler.Event{Rule: "r", Name: "node-1", ID: "r/2"}},
		handler.Func(func(ctx context.Context, _ handler.Event) (handler.Answer, error) {
			slog.InfoContext(ctx, "of no namespace")
			return handler.Answer{}, nil
		}), handler.Event{})

	batch := &callContext{parent: t.Context()}
	batcher := &batched{batches: make(chan []string, 1), handle: func(ctx context.Context, events []handler.Event) []handler.Result {
		slog.InfoContext(ctx, "of all")
		within := WithEvent(ctx, events[1])
		slog.InfoContext(within, "of one")
		batch.end()
		if within.Err() == nil {
			t.Error("the context of an event outlives that of its batch")
		}
		return make([]handler.Result, len(events))
	}}
	handleAll(batch, batcher, []handler.Event{ev, {Rule: "r", Name: "node-2", ID: "r/3"}})

	want := []map[string]any{
		{"@level": "info", "@message": "counted", "pods": 3.0, "rule": "r", "key": "shop/web", "id": "r/1"},
		{"@level": "warn", "@message": "mine", "team": "a", "rule": "own", "key": "shop/web", "id": "r/1"},
		{"@level": "info", "@message": "without it"},
		{"@level": "error", "@message": "panic", "in": "Handle", "value": "ouch", "rule": "r", "key": "shop/web", "id": "r/1"},
		{"@level": "info", "@message": "of no namespace", "rule": "r", "key": "node-1", "id": "r/2"},
		{"@level": "info", "@message": "of all"},
		{"@level": "info", "@message": "of one", "rule": "r", "key": "node-2", "id": "r/3"},
	}
	var got []map[string]any
	for decoder := json.NewDecoder(&log); decoder.More(); {
		var line map[string]any
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if stack, ok := line["stack"].(string); ok {
			lines := strings.Split(stack, "\n")
			if !strings.HasPrefix(lines[0], "goroutine ") || !strings.Contains(lines[1], "TestLogOfEvent") {
				t.Errorf("the stack does not begin where the panic was:\n%s", stack)
			}
			delete(line, "stack")
		}
		delete(line, "@timestamp")
		got = append(got, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Lines have hclog's shape, whatever attributes they have.
func TestLogShape(t *testing.T) {
	t.Setenv(handlerpb.EnvLogLevel, "DEBUG")
	var buf bytes.Buffer
	log := slog.New(logHandler(&buf))
	log.Debug("one", "level", "high", "time", 5)
	log.With("a", 1).WithGroup("g").Error("two", "msg", "x")
	var got []map[string]any
	for line := range strings.Lines(buf.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if _, ok := fields["@timestamp"]; !ok {
			t.Error("no @timestamp")
		}
		delete(fields, "@timestamp")
		got = append(got, fields)
	}
	want := []map[string]any{
		{"@level": "debug", "@message": "one", "level": "high", "time": 5.0},
		{"@level": "error", "@message": "two", "a": 1.0, "g": map[string]any{"msg": "x"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	t.Setenv(handlerpb.EnvLogLevel, "WARN")
	if slog.New(logHandler(&buf)).Enabled(t.Context(), slog.LevelInfo) {
		t.Error("INFORMD_LOG_LEVEL is not heeded")
	}
}
