package host_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
	_ "github.com/informd/informd/plugins/host/shim/install"
)

// TestMain re-executes the test binary as the handler that MODE names: real processes without a
// build step.
func TestMain(m *testing.M) {
	if mode := os.Getenv("MODE"); mode != "" {
		if run := modes[mode]; run != nil {
			run()
			os.Exit(0)
		}
		panic("no such mode: " + mode)
	}
	goleak.VerifyTestMain(m)
}

// echo answers as the event's name says, and takes a config.
type echo struct{ config struct{ Greeting string } }

func (e *echo) Describe() handler.Description {
	return handler.Description{Name: "echo", Version: "1.2.3", ConfigSchema: json.RawMessage(`{"type":"object"}`)}
}

func (e *echo) Configure(_ context.Context, config json.RawMessage) error {
	if len(config) == 0 {
		return nil
	}
	return json.Unmarshal(config, &e.config)
}

func (e *echo) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	switch name, rest, _ := strings.Cut(ev.Name, "-"); name {
	case "retry":
		return handler.Answer{}, fmt.Errorf("not now")
	case "later":
		return handler.Answer{}, handler.RetryAfter(time.Minute, fmt.Errorf("come back"))
	case "reject":
		return handler.Answer{}, handler.Reject(fmt.Errorf("never"))
	case "back": // the whole event comes back in an action
		b, err := json.Marshal(ev)
		return handler.Answer{Actions: []handler.Action{{Verb: handler.ActionApply, Resource: ev.Resource, Name: ev.Name, Object: b}}}, err
	case "panic":
		panic("contents: " + string(ev.Object))
	case "fault":
		_ = []int{}[len(rest)]
	case "wait":
		<-ctx.Done()
		return handler.Answer{}, ctx.Err()
	case "log":
		slog.Warn("hello from the handler", "n", 1<<60, "name", ev.Name)
	case "debug":
		slog.DebugContext(ctx, "a detail")
	case "exit":
		os.Exit(3)
	case "die":
		fmt.Fprint(os.Stderr, "Traceback:\n  in handle\nValueError: no such team\n")
		os.Exit(1)
	}
	return handler.Answer{}, nil
}

// race makes a handler that was built with the race detector end without a delay, and at the first
// race.
const race = "GORACE=atexit_sleep_ms=0 halt_on_error=1"

// spec runs this binary in a mode.
func spec(mode string) host.Spec {
	return host.Spec{Name: mode, Path: os.Args[0], Env: []string{"MODE=" + mode, race}, Timeout: 30 * time.Second}
}

// start runs a host until the test ends, and then checks that nothing of it is left.
func start(t *testing.T, s host.Spec, o host.Options) *host.Host {
	t.Helper()
	if o.RunDir == "" {
		o.RunDir = shortDir(t)
	}
	h := host.New(s, patient(o))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if left, _ := os.ReadDir(o.RunDir); len(left) > 0 {
			t.Errorf("left in the run directory: %v", left)
		}
	})
	return h
}

// patient sets limits that a handler keeps on a machine that is busy with other tests, where o sets
// none.
func patient(o host.Options) host.Options {
	o.StartTimeout = cmp.Or(o.StartTimeout, time.Minute)
	o.DescribeTimeout = cmp.Or(o.DescribeTimeout, time.Minute)
	o.ConfigureTimeout = cmp.Or(o.ConfigureTimeout, time.Minute)
	return o
}

// shortDir is a temporary directory whose path leaves room for a socket's.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "ih")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func ready(t *testing.T, h *host.Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := h.Ready(ctx); err != nil {
		t.Fatalf("not ready: %v; %+v", err, h.Status())
	}
}

// try launches a handler once.
func try(t *testing.T, s host.Spec, o host.Options) error {
	t.Helper()
	o.RunDir = shortDir(t)
	_, err := host.Try(t.Context(), s, patient(o))
	if left, _ := os.ReadDir(o.RunDir); len(left) > 0 {
		t.Errorf("left in the run directory: %v", left)
	}
	return err
}

// hostMain is a daemon that runs one handler and prints its process id, for others to see whether
// it survives.
func hostMain() {
	s := host.Spec{Name: "child", Path: os.Args[0], Env: []string{"MODE=" + os.Getenv("CHILD"), race}}
	h := host.New(s, host.Options{RunDir: os.Getenv("RUNDIR")})
	go func() { _ = h.Run(context.Background()) }()
	if err := h.Ready(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println(h.Status().PID)
	select {}
}

// writeProgram writes a file that is to be executed. The kernel executes no file that somebody may
// still write to, and a child process inherits the open file for a moment. So none starts
// meanwhile.
func writeProgram(path string, content []byte, mode os.FileMode) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, content, mode)
}

// waitFor polls a condition that nothing announces.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
