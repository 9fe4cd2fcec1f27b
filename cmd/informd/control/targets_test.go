package control

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/explain"
)

func target(namespace, name, state string) explain.Target {
	return explain.Target{
		Rule: "crashes", Resource: "v1/configmaps", Namespace: namespace, Name: name, For: "shop/o",
		State: state, Owner: &explain.Owner{Rule: "crashes", Object: "shop/o"},
	}
}

// A query narrows the targets by their rule, namespace and state. They come as they are, in order.
func TestTargetsOfAQuery(t *testing.T) {
	b := newBackend()
	waits := target("t1", "b", "waits")
	waits.Trouble = explain.Trouble{
		Failures: 3, Cause: "quota", Reason: "exceeded <quota>",
		Next: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	b.targets = []explain.Target{
		target("t2", "a", "done"), waits, target("", "c", "refused"), target("t1", "a", "done"),
	}
	c, _ := serve(t, b)
	for _, one := range []struct {
		q    TargetQuery
		want []explain.Target
	}{
		{TargetQuery{}, b.targets},
		{TargetQuery{Rule: "crashes"}, b.targets},
		{TargetQuery{Namespace: "t1"}, []explain.Target{b.targets[1], b.targets[3]}},
		{TargetQuery{State: "done"}, []explain.Target{b.targets[0], b.targets[3]}},
		{TargetQuery{"crashes", "t1", "waits"}, []explain.Target{waits}},
		{TargetQuery{State: "behind"}, nil},
	} {
		got, err := c.Targets(t.Context(), one.q)
		if diff := cmp.Diff(one.want, got); err != nil || diff != "" {
			t.Errorf("%+v: %v\n%s", one.q, err, diff)
		}
	}
	for _, one := range []struct {
		q    TargetQuery
		want string
	}{
		{TargetQuery{Rule: "crashs"}, `no rule "crashs"; did you mean crashes?`},
		{TargetQuery{Rule: "calm"}, "the rule calm is called quiet now"},
		{TargetQuery{State: "wait"}, `no state "wait"; did you mean waits?`},
	} {
		_, err := c.Targets(t.Context(), one.q)
		if err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%+v: %v, want %q", one.q, err, one.want)
		}
	}
}

// An answer that ends within a line is broken off, and no list of targets.
func TestTargetsThatBreakOff(t *testing.T) {
	for name, text := range map[string]string{
		"within a line": `{"rule":"a"}` + "\n" + `{"rule":`,
		"no target":     "[]\n",
	} {
		socket := filepath.Join(shortDir(t), "s")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })}
		go func() { _ = server.Serve(listener) }()
		if got, err := NewClient(socket).Targets(t.Context(), TargetQuery{}); err == nil {
			t.Errorf("%s: %v without an error", name, got)
		}
		_ = server.Close()
	}
}

// The server sends targets as they come: it keeps none that was sent, and ends with its client.
func TestTargetsAreStreamed(t *testing.T) {
	b := endless{newBackend(), make(chan struct{})}
	_, socket := serve(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://informd/v1/targets", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := raw(socket).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(response.Body)
	for range 1000 {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
	}
	_ = response.Body.Close()
	cancel()
	<-b.ended
}

// endless has targets without end.
type endless struct {
	*backend
	ended chan struct{}
}

func (e endless) Targets(string) (iter.Seq[explain.Target], error) {
	return func(yield func(explain.Target) bool) {
		defer close(e.ended)
		for yield(target("t1", "a", "done")) {
			continue
		}
	}, nil
}
