package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// The scripts run the commands that talk to the daemon. Each script has its own fake daemon, on the
// control socket $SOCKET.
func TestControlScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/control",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup:               pretend,
		Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"code": wantCode},
	})
}

func pretend(env *testscript.Env) error {
	endAtOnce(env)
	dir, err := os.MkdirTemp("", "c") // a socket's path is to be short
	if err != nil {
		return err
	}
	env.Defer(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, locate.ControlSocket)
	server, err := control.New(socket, newPretence(), control.Options{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Run(ctx) }()
	env.Defer(func() {
		cancel()
		if err := <-ended; err != nil {
			env.T().Log(err)
		}
	})
	env.Setenv("SOCKET", socket)
	env.Setenv("STATE", dir)
	return nil
}

// pretence is a daemon that always stands the same. Its ages are so high that they do not change
// within a test.
type pretence struct {
	mu      sync.Mutex
	letters []control.Letter
	paused  bool
	objects map[string][]string // by source
}

const (
	pod0   = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"shop","uid":"6f1c","resourceVersion":"88213","creationTimestamp":"2001-02-03T04:05:06Z","labels":{"app":"web","tier":"front"}},"spec":{"big":9007199254740993,"text":"a\n\n<b>\n"}}`
	pod1   = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"test","uid":"7a2d","resourceVersion":"88190"}}`
	secret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db","namespace":"shop","uid":"8b3e","resourceVersion":"4","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"password\":\"aHVudGVyMg==\"}}"}},"type":"Opaque","data":{"password":"aHVudGVyMg=="}}`
)

func newPretence() *pretence {
	old := time.Now().Add(-100 * 24 * time.Hour)
	p := &pretence{objects: map[string][]string{
		"pods": {pod0, pod1}, "secrets": {secret}, "thin": {`{"metadata":{"name":"x","uid":"1","resourceVersion":"3"}}`},
	}}
	for n, name := range []string{"web-0", "web-1"} {
		event := handler.Event{
			ID: fmt.Sprintf("crash-looping/6f1c/updated/8821%d", n), Rule: "crash-looping", Event: "updated", Attempt: 5,
			Resource: handler.Resource{Version: "v1", Resource: "pods"}, Namespace: "shop", Name: name, UID: "6f1c",
			ResourceVersion: fmt.Sprintf("8821%d", n), Payload: json.RawMessage(`{"restarts":17}`),
		}
		p.letters = append(p.letters, control.Letter{
			ID: event.ID, Rule: event.Rule, Handler: "oncall", Resource: "v1/pods", Namespace: "shop", Name: name,
			Attempts: 5, Since: old, Died: old, Reason: "the pager\x1b[31m said:\n503 Service Unavailable, and then said it" + strings.Repeat(" again, and", 12) + " again", Event: &event,
		})
	}
	p.letters[0].Delivered = time.Now().Add(-99 * 24 * time.Hour)
	event := handler.Event{ID: "tokens/8b3e/added/4", Rule: "tokens", Event: "added", Attempt: 1, Namespace: "shop", Name: "db", UID: "8b3e", Object: json.RawMessage(secret)}
	p.letters = append(p.letters, control.Letter{
		ID: event.ID, Rule: "tokens", Handler: "vault", Resource: "v1/secrets", Namespace: "shop", Name: "db",
		Attempts: 1, Since: old, Died: old, Reason: "hunter2 is too short", Event: &event, Secret: true,
	})
	return p
}

func (p *pretence) Status() control.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := time.Now().Add(-100 * 24 * time.Hour)
	state := "active"
	if p.paused {
		state = "paused"
	}
	return control.Status{
		Version: "v1.2.3", PID: 4711, Started: old, DeadLetters: len(p.letters),
		Sources: []control.SourceStatus{
			{Name: "pods", Resource: "v1/pods", State: "synced", Ready: true, Objects: 2, ResourceVersion: "88213", Indexes: []string{"byImage", "byNode"}},
			{Name: "secrets", Resource: "v1/secrets", State: "forbidden", Reason: "secrets is forbidden: not allowed to list", Objects: 1, Lag: 3},
			{Name: "thin", Resource: "apps/v1/deployments", State: "synced", Ready: true, Objects: 1, ResourceVersion: "3"},
		},
		Rules: []control.RuleStatus{
			{Name: "crash-looping", Handler: "oncall", Matches: 1204, Waiting: 100012, Away: 12, OldestSeconds: 61.2, Dead: 2, Paused: p.paused, State: state,
				Failure: "shop/web-0 failed at 12:00:01, attempt 7: \x1b[31m503 Service Unavailable"},
			{Name: "tokens", Handler: "vault", Dead: 1, Errors: 7, State: "blocked", Reason: "its source secrets is forbidden",
				LastError: &control.ExpressionError{Reason: "when: no such function", Object: "shop/db", At: old}},
			{Name: "quiet", Handler: "vault", State: "waiting", Reason: "waits for what it looks into: nodes"},
		},
		Handlers: []control.HandlerStatus{
			{Name: "oncall", State: "running", Since: old, Restarts: 1, InFlight: 8, PID: 4712, Program: "oncall v2", Confined: "user 65534:65534; memory, cpu by cgroup v2",
				Slow: 1, Full: true, Longest: []control.WorkingStatus{
					{Rule: "crash-looping", Object: "pods/shop/web-0", Since: old},
					{Rule: "crash\x1b[2J", Object: "pods/shop/web-1", Since: old},
				}},
			{Name: "pager", State: "backing off", Reason: "it exited with status 2", Since: old, Restarts: 12, Failures: 7, Next: old,
				LastLog: []string{"panic: no\x1b[2J pager", "", "goroutine 1 [running]:", "\tmain.main()"}},
			{Name: "shaky", State: "running", Since: old, Restarts: 5, PID: 4714, Failures: 5,
				LastFailure: "it exited with status 1", FailedAt: old, LastLog: []string{"ValueError: no such team"}},
			{Name: "vault", State: "refused", Reason: "config: no address", Since: old},
			{Name: "wedge", State: "wedged", Reason: "no answer to a health check within 5s", Since: old, PID: 4713, InFlight: 1, Failures: 1, LastLog: []string{"no such host"}, Reloading: old},
		},
		Store: &control.StateStatus{Directory: "/var/lib/informd", SizeBytes: 12_910_592, Unwritten: 3, UnwrittenBytes: 9001, Trouble: "no space left on device"},
	}
}

func (p *pretence) Objects(q control.Query) (control.Found, error) {
	s := control.Found{Secret: q.Source == "secrets"}
	if q.Source == "thin" {
		s.Kept = []string{"metadata.name", "spec.replicas"}
	}
	for _, text := range p.objects[q.Source] {
		o, err := object.FromJSON([]byte(text))
		if err != nil {
			return s, err
		}
		if (q.Namespace == "" || q.Namespace == o.Namespace()) && (q.Name == "" || q.Name == o.Name()) &&
			q.Selector.Matches(labels.Set(o.Labels())) && (q.Index == "" || q.Value == o.Namespace()) {
			s.Objects = append(s.Objects, o)
		}
	}
	return s, nil
}

func (p *pretence) Letters() ([]control.Letter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	letters := slices.Clone(p.letters)
	for i := range letters {
		letters[i].Event = nil
	}
	return letters, nil
}

func (p *pretence) Letter(id string) (control.Letter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.letters {
		if l.ID == id {
			return l, nil
		}
	}
	return control.Letter{}, control.ErrNotFound
}

func (p *pretence) RetryLetter(id string) error {
	if id == "tokens/8b3e/added/4" {
		return fmt.Errorf("dead letter %q: there is no rule %q any more", id, "tokens")
	}
	return p.DropLetter(id)
}

func (p *pretence) DropLetter(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.letters, func(l control.Letter) bool { return l.ID == id })
	if at < 0 {
		return control.ErrNotFound
	}
	p.letters = slices.Delete(p.letters, at, at+1)
	return nil
}

func (p *pretence) SetPaused(rule string, paused bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rule != "crash-looping" {
		return control.ErrNotFound
	}
	p.paused = paused
	return nil
}

func (p *pretence) Written(context.Context) error { return nil }

func (p *pretence) RetryRule(rule, object string) (int, error) {
	switch {
	case rule == "quiet":
		return 0, nil
	case rule != "crash-looping":
		return 0, control.ErrNotFound
	case object == "":
		return 12, nil
	case object == "shop/web-0" || object == "web-0":
		return 1, nil
	}
	return 0, &control.NotWaitingError{Rule: rule, Object: object, Waiting: []string{"shop/web-1", "shop/web-0"}}
}

func (p *pretence) ReloadHandler(_ context.Context, name string) (control.Reloaded, error) {
	switch name {
	case "oncall":
		return control.Reloaded{PID: 4714, Notes: []string{"concurrency, timeout: apply when informd restarts"}}, nil
	case "pager":
		return control.Reloaded{}, &control.Error{
			Code: http.StatusConflict, Message: "handler pager was not reloaded and goes on as it was: the new process:\nit\x1b[2J refuses its config",
		}
	case "vault":
		mistakes := config.Mistakes{
			{Position: config.Position{File: "rules.yaml", Line: 3, Column: 5}, Message: "a mistake", Snippet: "\tx: \x1b[2Jy"},
			{Position: config.Position{File: "rules.yaml", Line: 4, Column: 5}, Message: "another"},
		}
		return control.Reloaded{}, &control.Error{
			Code: http.StatusConflict, Message: "2 mistakes in the manifests: nothing was changed", Report: mistakes.Error(),
		}
	}
	return control.Reloaded{}, control.ErrNotFound
}

func (p *pretence) Resync(_ context.Context, rule string) (int, error) {
	if rule != "crash-looping" {
		return 0, fmt.Errorf("rule %q: %w", rule, control.ErrNotFound)
	}
	return 3, nil
}

func (p *pretence) Targets(rule string) (iter.Seq[explain.Target], error) {
	if rule != "" && rule != "crash-looping" {
		return nil, fmt.Errorf("rule %q: %w", rule, control.ErrNotFound)
	}
	done := explain.Target{
		Rule: "crash-looping", Resource: "v1/configmaps", Namespace: "t1", Name: "dup", For: "sa/dup", State: "done",
		Owner: &explain.Owner{Rule: "crash-looping", Object: "sa/dup"},
	}
	behind, waits := done, done
	behind.For, behind.State = "sb/dup", "behind"
	waits.Namespace, waits.State, waits.Trouble = "t2", "waits", explain.Trouble{
		Failures: 3, Cause: "namespace", Reason: "actions[0]: apply of v1/configmaps t2/dup: the namespace t2 does not exist",
	}
	return slices.Values([]explain.Target{done, waits, behind}), nil
}

func (p *pretence) Events(rule string, after uint64) (control.Events, error) {
	if rule != "" && rule != "crash-looping" {
		return control.Events{}, fmt.Errorf("rule %q: %w", rule, control.ErrNotFound)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	event := control.Event{Time: at, Rule: "crash-looping", Handler: "oncall", Object: "shop/web-0", Outcome: explain.Outcome{Event: "updated", What: "selected", ID: "crash-looping/1/updated/7"}}
	declined, sent, done := event, event, event
	declined.Object, declined.What = "shop/web-1", "when"
	sent.What, sent.Attempt = "sent", 2
	done.What, done.Attempt, done.DurationSeconds, done.LatencySeconds = "done", 2, 0.25, 1.5
	out := control.Events{Started: at, Last: 4, Items: []control.Event{event, declined, sent, done}}
	if after > 0 {
		out.Items = out.Items[min(after, 4):]
	}
	return out, nil
}

func (p *pretence) Explain(rule, namespace, name string, _ bool) (explain.Explanation, error) {
	if rule != "crash-looping" {
		return explain.Explanation{}, fmt.Errorf("rule %q: %w", rule, control.ErrNotFound)
	}
	x := explain.Explanation{Rule: rule, Object: namespace + "/" + name, State: "active", Standing: explain.Absent}
	x.Events = []string{"added", "updated", "deleted", "synced"}
	x.Source = explain.Source{Name: "pods", Resource: "v1/pods", Selections: []explain.Selection{{LabelSelector: "app=web"}}}
	if name == "unseen" {
		x.Standing, x.Reason = explain.Unknown, "its source is forbidden: no"
	}
	x.Conclude()
	return x, nil
}

func (p *pretence) Reload(context.Context) (control.ReloadedAll, error) {
	return control.ReloadedAll{Rules: control.Changes{Added: []string{"new"}}, Notes: []string{"a note"}}, nil
}

func (p *pretence) Plan(_ context.Context, files []control.File) (control.Planned, error) {
	return control.Planned{Kept: len(files), Rules: []control.PlannedRule{{Name: "new", Change: "added", Text: "is new"}}}, nil
}
