// Package handlertest is a conformance suite for handlers: it runs an executable as informd would and checks that it
// keeps its side of the contract in plugins/handler, and bears what may come from the other.
//
//	func TestConformance(t *testing.T) {
//		handlertest.Run(t, handlertest.Options{
//			Command:   []string{"./oncall"},
//			Config:    json.RawMessage(`{"channel":"#ops"}`),
//			BadConfig: json.RawMessage(`{"chanel":"#ops"}`),
//		})
//	}
//
// It knows nothing of what the handler does with an event: what its work comes to is for the handler's own tests, with
// which the suite shares the events that it sends.
package handlertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host"
)

// Options say what to test, and with what.
type Options struct {
	// Command is the executable and its arguments.
	Command []string
	// Dir is its working directory; default: the test's.
	Dir string
	// Env is its whole environment, as KEY=VALUE.
	Env []string
	// Config is one that the handler accepts; empty if it takes none.
	Config json.RawMessage
	// BadConfig is one that it must refuse. Default: {"handlertest-unknown-field": 1}, which every handler should
	// refuse: the operator may have misspelt something.
	BadConfig json.RawMessage
	// Event makes the nth event that the suite sends, one that the handler answers with done; different n are different
	// objects. Default: an update of a ConfigMap.
	Event func(n int) handler.Event
	// Integers, if set, is called after ev, whose object or payload is {"integer":9007199254740993}, was done: it
	// checks that the number (2^53+1, which a float64 cannot hold) came through the handler unharmed.
	Integers func(t *testing.T, ev handler.Event)
	// Timeout is for one event. Default 10 s.
	Timeout time.Duration
}

// Run runs the suite as subtests of t.
func Run(t *testing.T, o Options) {
	t.Helper()
	if len(o.Command) == 0 {
		t.Fatal("handlertest: no Command")
	}
	if o.Event == nil {
		o.Event = configMap
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if len(o.BadConfig) == 0 {
		o.BadConfig = json.RawMessage(`{"handlertest-unknown-field": 1}`)
	}
	s := suite{Options: o, spec: host.Spec{
		Name: "handlertest", Path: o.Command[0], Args: o.Command[1:], Env: o.Env, Dir: o.Dir, Config: o.Config,
		Concurrency: 16, Timeout: o.Timeout,
	}}
	t.Run("describes itself", s.describes)
	t.Run("refuses a bad config", s.refuses)
	t.Run("answers", s.answers)
	t.Run("answers a repeat", s.repeats)
	t.Run("answers in parallel", s.parallel)
	t.Run("answers strange events", s.strange)
	t.Run("answers large events", s.large)
	t.Run("keeps integers", s.integers)
	t.Run("goes on after a cancel", s.cancel)
	t.Run("ends when asked", s.ends)
	t.Run("ends with its host", s.endsWithHost)
}

type suite struct {
	Options
	spec host.Spec
}

func configMap(n int) handler.Event {
	name := fmt.Sprintf("handlertest-%d", n)
	object := func(value int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q,`+
			`"uid":"uid-%d","resourceVersion":"%d"},"data":{"key":"%d"}}`, name, n, 1000+value, value))
	}
	return handler.Event{
		ID: fmt.Sprintf("handlertest/uid-%d/updated/1002", n), Rule: "handlertest", Event: handler.Updated, Attempt: 1,
		Resource:  handler.Resource{Version: "v1", Resource: "configmaps"},
		Namespace: "default", Name: name, UID: fmt.Sprintf("uid-%d", n), ResourceVersion: "1002",
		Object: object(2), Old: object(1),
	}
}

func (s *suite) options(t *testing.T) host.Options {
	t.Helper()
	dir, err := os.MkdirTemp("", "ht") // short, as a socket's path must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return host.Options{RunDir: dir, Version: "handlertest", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// start runs the handler until the test ends. That it had to be started again is a failure.
func (s *suite) start(t *testing.T) *host.Host {
	t.Helper()
	h := host.New(s.spec, s.options(t))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	t.Cleanup(func() {
		if st := h.Status(); st.Restarts > 0 {
			t.Errorf("the handler went away and was started %d times more", st.Restarts)
		}
		cancel()
		<-done
	})
	within, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	if err := h.Ready(within); err != nil {
		st := h.Status()
		t.Fatalf("the handler is %s, not ready: %s", st.State, st.Reason)
	}
	return h
}

func (s *suite) describes(t *testing.T) {
	d, err := host.Try(t.Context(), s.spec, s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	if d.Name == "" {
		t.Error("it has no name")
	}
	if len(d.ConfigSchema) > 0 && !json.Valid(d.ConfigSchema) {
		t.Error("its config schema is not JSON")
	}
}

func (s *suite) refuses(t *testing.T) {
	spec := s.spec
	spec.Config = s.BadConfig
	_, err := host.Try(t.Context(), spec, s.options(t))
	refused, ok := errors.AsType[*host.RefusedError](err)
	switch {
	case err == nil:
		t.Errorf("it accepts %s", s.BadConfig)
	case !ok:
		t.Errorf("it does not refuse the config but fails: %v", err)
	default:
		for _, p := range refused.Problems {
			if strings.TrimSpace(p.Message) == "" {
				t.Error("it refuses the config without saying why")
			}
		}
	}
}

func (s *suite) answers(t *testing.T) {
	h := s.start(t)
	if _, err := h.Handle(t.Context(), s.Event(1)); err != nil {
		t.Errorf("not done: %v", err)
	}
}

func (s *suite) repeats(t *testing.T) {
	h := s.start(t)
	for attempt := 1; attempt <= 3; attempt++ {
		ev := s.Event(1)
		ev.Attempt = attempt
		if _, err := h.Handle(t.Context(), ev); err != nil {
			t.Errorf("attempt %d: not done: %v", attempt, err)
		}
	}
}

func (s *suite) parallel(t *testing.T) {
	h := s.start(t)
	var wg sync.WaitGroup
	for n := range 64 {
		wg.Go(func() {
			if _, err := h.Handle(t.Context(), s.Event(n)); err != nil {
				t.Errorf("event %d: not done: %v", n, err)
			}
		})
	}
	wg.Wait()
}

// strange events may be answered in any way, but the handler must live.
func (s *suite) strange(t *testing.T) {
	h := s.start(t)
	change := func(f func(*handler.Event)) handler.Event {
		ev := s.Event(1)
		f(&ev)
		return ev
	}
	object := func(text string) handler.Event {
		return change(func(ev *handler.Event) { ev.Object, ev.Old, ev.Payload = json.RawMessage(text), nil, nil })
	}
	for name, ev := range map[string]handler.Event{
		"added":              change(func(ev *handler.Event) { ev.Event, ev.Old = handler.Added, nil }),
		"deleted":            change(func(ev *handler.Event) { ev.Event, ev.Old = handler.Deleted, nil }),
		"synced":             change(func(ev *handler.Event) { ev.Event, ev.Old = handler.Synced, nil }),
		"a kind to come":     change(func(ev *handler.Event) { ev.Event = "handlertest" }),
		"of no namespace":    change(func(ev *handler.Event) { ev.Namespace = "" }),
		"of no object":       change(func(ev *handler.Event) { ev.Object, ev.Old, ev.Payload = nil, nil, nil }),
		"of an empty object": object(`{}`),
		"of no JSON object":  object(`[null]`),
		"with a payload":     change(func(ev *handler.Event) { ev.Object, ev.Old, ev.Payload = nil, nil, json.RawMessage(`"text"`) }),
		"with other fields":  object(`{"metadata":{"labels":null,"annotations":{"a/b.c":"\u0000ü"}},"handlertest":{"deep":[[[{}]]]}}`),
		"with other types":   object(`{"metadata":[],"spec":1,"status":"x","data":true}`),
		"of nothing":         {},
	} {
		_, err := h.Handle(t.Context(), ev)
		checkAnswered(t, "an event "+name, err)
	}
}

func (s *suite) large(t *testing.T) {
	h := s.start(t)
	// As large as the API server takes it, with the previous state beside it.
	text := json.RawMessage(`{"data":"` + strings.Repeat("x", 1_500_000) + `"}`)
	for n := range 4 {
		ev := s.Event(n)
		ev.Object, ev.Old = text, text
		_, err := h.Handle(t.Context(), ev)
		checkAnswered(t, "an event of 3 MB", err)
	}
}

// checkAnswered accepts any answer that the handler gave.
func checkAnswered(t *testing.T, what string, err error) {
	t.Helper()
	switch {
	case errors.Is(err, handler.ErrLost):
		t.Errorf("%s ended it: %v", what, err)
	case err != nil && strings.HasPrefix(err.Error(), "no answer within"):
		t.Errorf("%s was not answered: %v", what, err)
	case err != nil && strings.HasPrefix(err.Error(), "panic:"):
		t.Errorf("%s made it panic: %v", what, err)
	}
}

func (s *suite) integers(t *testing.T) {
	if s.Integers == nil {
		t.Skip("Options.Integers is not set: only the handler's author can see what became of a number")
	}
	h := s.start(t)
	ev := s.Event(1)
	ev.Old = nil
	if len(ev.Payload) > 0 {
		ev.Payload = json.RawMessage(`{"integer":9007199254740993}`)
	} else {
		ev.Object = json.RawMessage(`{"integer":9007199254740993}`)
	}
	if _, err := h.Handle(t.Context(), ev); err != nil {
		t.Fatalf("not done: %v", err)
	}
	s.Integers(t, ev)
}

func (s *suite) cancel(t *testing.T) {
	h := s.start(t)
	for n := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _, _ = h.Handle(ctx, s.Event(n)) }()
		cancel()
		<-done
	}
	// A cancelled event may still be with the handler; then its object is not free yet.
	if _, err := h.Handle(t.Context(), s.Event(100)); err != nil {
		t.Errorf("not done: %v", err)
	}
}

// ends checks that closing standard input and go-plugin's Shutdown, or SIGTERM, suffice: SIGKILL would come later than
// the test waits.
func (s *suite) ends(t *testing.T) {
	o := s.options(t)
	o.StopTimeout = time.Minute
	h := host.New(s.spec, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	within, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	err := h.Ready(within)
	if err == nil {
		_, err = h.Handle(t.Context(), s.Event(1))
	}
	if err != nil {
		t.Error(err)
	}
	cancel()
	select {
	case <-done:
	case <-time.After(50 * time.Second):
		t.Error("it did not end within 50 s of its drain")
		<-done
	}
}

// endsWithHost starts the handler by hand, as another program could, and goes away. It also shows what a host does up
// to the handshake.
func (s *suite) endsWithHost(t *testing.T) {
	o := s.options(t)
	c := exec.Command(s.Command[0], s.Command[1:]...)
	c.Dir = s.Dir
	c.Env = append(append([]string{}, s.Env...),
		handlerpb.CookieKey+"="+handlerpb.CookieValue,
		fmt.Sprintf("PLUGIN_PROTOCOL_VERSIONS=%d", handlerpb.ProtocolVersion),
		"PLUGIN_UNIX_SOCKET_DIR="+o.RunDir,
	)
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(20*time.Second, func() {
		t.Error("it lives on, 20 s after its standard input ended")
		_ = c.Process.Kill()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, fmt.Sprintf("1|%d|unix|", handlerpb.ProtocolVersion)) {
		t.Errorf("handshake: got %q, %v", line, err)
	}
	_ = stdin.Close()
	_, _ = io.Copy(io.Discard, stdout)
	_ = c.Wait()
	kill.Stop()
}
