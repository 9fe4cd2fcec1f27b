package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/integration/apistub"
)

func TestSourceStatus(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	record := newRecorder()
	e := run(t, server, twoRules, map[string]Handler{"record": record})
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"}}`)
	record.await(t, 2)
	if s := e.Status().Sources[0]; s.Resource != "v1/configmaps" || s.ResourceVersion != server.ResourceVersion() {
		t.Errorf("got %+v at %s", s, server.ResourceVersion())
	}
	if e.Status().Rules[0].Paused {
		t.Error("a rule is paused and nobody asked for it")
	}
}

// A source with several informers shows the one that is behind.
func TestIsBehind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want bool
	}{
		{"9", "10", true},
		{"10", "9", false},
		{"9", "9", false},
		{"", "9", true},
		{"9", "", false},
		{"9", "x", false}, // on a server with other versions nobody can tell
	}
	for _, test := range tests {
		if got := isBehind(test.a, test.b); got != test.want {
			t.Errorf("isBehind(%q, %q) = %v", test.a, test.b, got)
		}
	}
}

// A rule whose source gives it nothing is not active, and says why.
func TestRuleState(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	server.Forbid(configMaps, true)
	record := newRecorder()
	e := run(t, server, twoRules, map[string]Handler{"record": record})
	is := func(state RuleState, reason string) {
		t.Helper()
		var got RuleStatus
		poll(t, "the rule to be "+string(state)+": "+reason, func() bool {
			got = e.Status().Rules[0]
			return got.State == state && got.Reason == reason
		})
	}
	is(RuleBlocked, "its source maps is forbidden")
	if err := e.SetPaused("whole", true); err != nil {
		t.Fatal(err)
	}
	is(RulePaused, "its source maps is forbidden")
	if err := e.SetPaused("whole", false); err != nil {
		t.Fatal(err)
	}
	server.Forbid(configMaps, false)
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"}}`)
	is(RuleActive, "")
	server.Withdraw(configMaps)
	is(RuleBlocked, "its source maps is not served")
}

// The status has the last failure of a rule's expressions, with its object.
func TestLastError(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	rule := strings.Replace(twoRules, "payload: object.data.text", "when: int(object.data.text) > 1", 1)
	e := run(t, server, rule, map[string]Handler{"record": newRecorder()})
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
