package engine

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/integration/apistub"
)

func TestSourceStatus(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	record := newRecorder()
	e := run(t, server, twoRules, map[string]live.Handler{"record": record})
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"}}`)
	record.await(t, 2)
	if s := e.Status().Sources[0]; s.Resource != "v1/configmaps" || s.ResourceVersion != server.ResourceVersion() {
		t.Errorf("got %+v at %s", s, server.ResourceVersion())
	}
	if e.Status().Rules[0].Paused {
		t.Error("a rule is paused and nobody asked for it")
	}
}

// A rule whose source gives it nothing is not active, and says why.
func TestRuleState(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	server.Forbid(configMaps, true)
	record := newRecorder()
	e := run(t, server, twoRules, map[string]live.Handler{"record": record})
	is := func(state admin.RuleState, reason string) {
		t.Helper()
		var got admin.RuleStatus
		poll(t, "the rule to be "+string(state)+": "+reason, func() bool {
			got = e.Status().Rules[0]
			return got.State == state && got.Reason == reason
		})
	}
	is(admin.RuleBlocked, "its source maps is forbidden")
	if err := e.SetPaused("whole", true); err != nil {
		t.Fatal(err)
	}
	is(admin.RulePaused, "its source maps is forbidden")
	if err := e.SetPaused("whole", false); err != nil {
		t.Fatal(err)
	}
	server.Forbid(configMaps, false)
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"}}`)
	is(admin.RuleActive, "")
	server.Withdraw(configMaps)
	is(admin.RuleBlocked, "its source maps is not served")
}

// The status has the last failure of a rule's expressions, with its object.
func TestLastError(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	rule := strings.Replace(twoRules, "payload: object.data.text", "when: int(object.data.text) > 1", 1)
	e := run(t, server, rule, map[string]live.Handler{"record": newRecorder()})
	if last := e.Status().Rules[1].LastError; last != nil {
		t.Errorf("before any: %v", last)
	}
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"},"data":{"text":"x"}}`)
	poll(t, "an error", func() bool { return e.Status().Rules[1].LastError != nil })
	last := *e.Status().Rules[1].LastError
	if last.Key != (delta.Key{Namespace: "shop", Name: "a"}) || last.At.IsZero() ||
		!strings.Contains(last.Reason, "when") {
		t.Errorf("got %+v", last)
	}
}

// poll waits until cond holds, which nothing announces.
func poll(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}

// lines collects log lines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The log names sources as the manifests do, and has a line for each successful delivery at debug.
func TestLogNamesSourcesAndDeliveries(t *testing.T) {
	t.Parallel()
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		server := apistub.New(t)
		server.Serve(configMaps, "ConfigMap", true)
		server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"}}`)
		var log lines
		options := Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))}
		e := runWith(t, server, mapSource+aRule("r", ""), map[string]live.Handler{"record": newRecorder()}, options)
		poll(t, "the delivery", func() bool {
			s := e.Status()
			return s.Sources[0].Ready && s.Rules[0].Matches == 1 && s.Rules[0].Queue.InFlight+s.Rules[0].Queue.Waiting == 0
		})
		if want := `msg="source has synced" source=maps resource=v1/configmaps`; !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, log.String())
		}
		delivered := func() bool {
			return strings.Contains(log.String(), "msg=delivered handler=record rule=r key=shop/a id=r/")
		}
		if level == slog.LevelDebug {
			poll(t, "the line of the delivery", delivered)
		} else if delivered() {
			t.Errorf("at info: %s", log.String())
		}
	}
}
