package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/client"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/locate"
	"github.com/informd/informd/config"
	"github.com/informd/informd/engine"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/integration/apistub"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/outbox"
)

// refusing is a handler that rejects everything until it is well.
type refusing struct{ well atomic.Bool }

func (*refusing) Ready(ctx context.Context) error { return ctx.Err() }

func (*refusing) Limit() (int, bool) { return 1, false }

func (*refusing) Grown() <-chan struct{} { return nil }

func (r *refusing) Handle(context.Context, handler.Event) (handler.Answer, error) {
	if r.well.Load() {
		return handler.Answer{}, nil
	}
	return handler.Answer{}, handler.Reject(errors.New("the password is hunter2"))
}

const controlled = `
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: refuse}
spec: {builtin: log}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: reader}
spec: {command: [./reader], access: {read: [secrets]}}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods, indexes: {byNode: object.spec.node}}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: thin}
spec: {resource: v1/pods, namespaces: [shop], keep: needed, indexes: {byNode: object.spec.node}}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: secrets}
spec: {resource: v1/secrets, indexes: {byNamespace: object.metadata.namespace}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: all-pods}
spec: {source: pods, handler: refuse}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: all-secrets}
spec: {source: secrets, handler: refuse}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: read-secrets}
spec: {source: pods, handler: reader, when: object.metadata.name == "web-1"}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: passwords}
spec:
  source: pods
  when: object.metadata.name == "web-2"
  payload: 'map(lookup("secrets.byNamespace", object.metadata.namespace), .data.password)'
  handler: refuse
`

// daemon is an engine on a stub API server, with a control socket.
type daemon struct {
	handler *refusing
	socket  string
	cached  *cached // as handlers read it
}

func startDaemon(t *testing.T) *daemon {
	t.Helper()
	server := apistub.New(t)
	pods, secrets := schema.GroupVersionResource{Version: "v1", Resource: "pods"}, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	server.Serve(pods, "Pod", true)
	server.Serve(secrets, "Secret", true)
	for _, name := range []string{"web-2", "web-0", "web-1"} {
		server.Apply(pods, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"labels":{"app":"web"}},"spec":{"node":"a","more":1}}`, name))
	}
	server.Apply(pods, `{"metadata":{"namespace":"pay","name":"web-0"},"spec":{"node":"b"}}`)
	server.Apply(secrets, `{"metadata":{"namespace":"shop","name":"db"},"data":{"password":"aHVudGVyMg=="}}`)

	cfg, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(controlled)}})
	compiled, more := plan.Compile(cfg)
	if mistakes = append(mistakes, more...); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	cluster, err := connect(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{handler: new(refusing), cached: new(cached)}
	hosts := &handlers{all: handlerSet{{name: "refuse", Handler: d.handler}, {name: "reader", Handler: d.handler}}}
	eng, err := engine.New(compiled, cluster, hosts.all.byName(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := &current{engine: eng, handlers: hosts}
	now.running.Store(&running{plan: compiled})
	d.cached.read(now.names, eng)
	dir, err := os.MkdirTemp("", "c") // a socket's path is to be short
	if err != nil {
		t.Fatal(err)
	}
	d.socket = filepath.Join(dir, locate.ControlSocket)
	answers, err := newControl("", dir, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	answers.Switch(&backend{current: now, engine: eng, handlers: hosts, fitting: new(fitting), started: time.Now()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- eng.Run(ctx) }()
	go func() { ended <- answers.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	return d
}

// informd runs without a socket if the default place is unusable, and refuses to if the place was
// given.
func TestNoControlSocket(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	server, err := newControl("", missing, nil, log)
	if err != nil || server != nil || !strings.Contains(said.String(), "no control socket") {
		t.Errorf("in a folder that is missing: %v, %v, %s", server, err, said.String())
	}
	if _, err := newControl(filepath.Join(missing, "s"), missing, nil, log); err == nil {
		t.Error("asked for in a folder that is missing")
	}
	if _, err := newControl("", "/"+strings.Repeat("x", 200), nil, log); err == nil || !strings.Contains(err.Error(), "--control") {
		t.Errorf("in a folder with too long a path: %v", err)
	}
	server, err = newControl("", locate.NoState, nil, log)
	if err != nil || server != nil {
		t.Errorf("without a state: %v, %v", server, err)
	}
	if err := server.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

// informd runs a command and wants it to succeed.
func (d *daemon) informd(t *testing.T, args ...string) string {
	t.Helper()
	var out, problems bytes.Buffer
	root := &cobra.Command{Use: "informd"}
	root.AddCommand(client.NewCommands()...)
	if code := cli.Execute(t.Context(), root, append(args, "--control", d.socket), &out, &problems); code != cli.ExitDone {
		t.Fatalf("informd %v: exit %d, %s", args, code, problems.String())
	}
	return out.String()
}

// await runs a command until its output is as wanted.
func (d *daemon) await(t *testing.T, wanted func(out string) bool, args ...string) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		out := d.informd(t, args...)
		if wanted(out) {
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("informd %v shows\n%s", args, out)
		}
	}
}

func contains(text string) func(string) bool {
	return func(out string) bool { return strings.Contains(out, text) }
}

// The commands show the state of the engine.
func TestCommandsOnAnEngine(t *testing.T) {
	d := startDaemon(t)
	d.await(t, contains(`"deadLetters": 7`), "status", "-o", "json")
	if out := d.informd(t, "status"); !strings.Contains(out, "dry run") || !strings.Contains(out, "none is kept") {
		t.Errorf("status shows\n%s", out)
	}

	tests := []struct{ args, want string }{
		{"get pods -o name", "pay/web-0\nshop/web-0\nshop/web-1\nshop/web-2\n"},
		{"get pods -n shop -o name", "shop/web-0\nshop/web-1\nshop/web-2\n"},
		{"get pods web-0 -o name", "pay/web-0\nshop/web-0\n"},
		{"get pods shop/web-1 -o name", "shop/web-1\n"},
		{"get pods shop/web-1 -l app=web -o name", "shop/web-1\n"},
		{"get pods -l app!=web -o name", "pay/web-0\n"},
		{"get pods --index byNode=a -o name", "shop/web-0\nshop/web-1\nshop/web-2\n"},
		{"get pods --index byNode=b -n shop -o name", ""},
		{"get pods --index byNode=b -l app=web -o name", ""},
		{"get pods web-1 --index byNode=a -o name", "shop/web-1\n"},
		{"get thin -o name", "shop/web-0\nshop/web-1\nshop/web-2\n"},
	}
	for _, test := range tests {
		if out := d.informd(t, strings.Fields(test.args)...); out != test.want {
			t.Errorf("informd %s shows %q, want %q", test.args, out, test.want)
		}
	}
	if out := d.informd(t, "get", "thin", "web-0", "-o", "json"); strings.Contains(out, `"more"`) || !strings.Contains(out, `"node": "a"`) {
		t.Errorf("of a source that keeps what is needed: %s", out)
	}
	if out := d.informd(t, "get", "secrets", "-o", "yaml"); strings.Contains(out, "aHVudGVyMg") || !strings.Contains(out, "password: '***'") {
		t.Errorf("a Secret: %s", out)
	}
	if out := d.informd(t, "get", "secrets", "-o", "yaml", "--show-secrets"); !strings.Contains(out, "password: aHVudGVyMg==") {
		t.Errorf("a Secret that is to be shown: %s", out)
	}
}

// A later event makes up for a letter of the same object, unless the rule delivers every event, or a
// group.
func TestHealedLetters(t *testing.T) {
	later := time.Now()
	letters := []delivery.Letter{
		{Rule: "latest"}, {Rule: "latest", Delivered: later}, {Rule: "latest", Delivered: later},
		{Rule: "every", Delivered: later}, {Rule: "grouped", Delivered: later, IsGroup: true},
	}
	every := &plan.Rule{Every: true}
	every.Name = "every"
	dead, healed := countLetters(letters, []*plan.Rule{every})
	if diff := cmp.Diff(map[string]int{"latest": 3, "every": 1, "grouped": 1}, dead); diff != "" {
		t.Errorf("dead (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"latest": 2}, healed); diff != "" {
		t.Errorf("healed (-want +got):\n%s", diff)
	}
}

func TestLettersOfAnEngine(t *testing.T) {
	d := startDaemon(t)
	d.await(t, contains(`"deadLetters": 7`), "status", "-o", "json")
	var list struct{ Items []control.Letter }
	if err := json.Unmarshal([]byte(d.informd(t, "dead", "list", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	var secret, pod, payload, read string
	for _, l := range list.Items {
		switch l.Rule {
		case "all-secrets":
			secret = l.ID
		case "all-pods":
			pod = l.ID
		case "passwords":
			payload = l.ID
		case "read-secrets":
			read = l.ID
		}
	}
	if out := d.informd(t, "dead", "show", secret) + d.informd(t, "dead", "list", "--rule", "all-secrets"); strings.Contains(out, "hunter2") || strings.Contains(out, "aHVudGVyMg") {
		t.Errorf("a Secret's letter: %s", out)
	}
	if out := d.informd(t, "dead", "show", payload) + d.informd(t, "dead", "list", "--rule", "passwords"); strings.Contains(out, "hunter2") || strings.Contains(out, "aHVudGVyMg") {
		t.Errorf("a letter of a rule that looks a Secret up: %s", out)
	}
	if out := d.informd(t, "dead", "show", read) + d.informd(t, "dead", "list", "--rule", "read-secrets"); strings.Contains(out, "hunter2") {
		t.Errorf("a letter of a handler that reads Secrets: %s", out)
	}
	if out := d.informd(t, "dead", "show", read, "--show-secrets"); !strings.Contains(out, "hunter2") {
		t.Errorf("a letter that is to be shown: %s", out)
	}
	if out := d.informd(t, "dead", "show", payload, "--show-secrets"); !strings.Contains(out, "hunter2") || !strings.Contains(out, "aHVudGVyMg") {
		t.Errorf("a letter that is to be shown: %s", out)
	}
	if out := d.informd(t, "dead", "show", pod); !strings.Contains(out, "the password is hunter2") || !strings.Contains(out, "event: synced") {
		t.Errorf("a pod's letter: %s", out)
	}

	d.handler.well.Store(true)
	if out := d.informd(t, "dead", "retry", pod); out != "1 dead letter to be delivered again\n" {
		t.Error(out)
	}
	if out := d.informd(t, "dead", "drop", "--rule", "all-secrets"); out != "1 dead letter dropped\n" {
		t.Error(out)
	}
	if out := d.informd(t, "dead", "retry", "--all"); out != "5 dead letters to be delivered again\n" {
		t.Error(out)
	}
	d.informd(t, "rule", "pause", "all-pods")
	if out := d.informd(t, "rule", "list"); !strings.Contains(out, "paused") {
		t.Errorf("a paused rule: %s", out)
	}
	d.informd(t, "rule", "resume", "all-pods")
	if out := d.await(t, func(out string) bool { return !strings.Contains(out, "paused") }, "rule", "list"); !strings.Contains(out, "active") {
		t.Errorf("rules: %s", out)
	}
}

// The status of a process is current. It shows the next start only if none runs.
func TestHostStatus(t *testing.T) {
	next := time.Now().Add(time.Minute)
	for _, c := range []struct {
		status host.Status
		want   control.HandlerStatus
	}{
		{host.Status{State: host.Running, PID: 1, Problem: "no disk", Next: next, Handler: host.Description{Name: "page", Version: "v2"}, Confined: "user 1:1", Reloading: next},
			control.HandlerStatus{State: "running", PID: 1, Problem: "no disk", Program: "page v2", Confined: "user 1:1", Reloading: next}},
		{host.Status{State: host.BackingOff, Reason: "it exited", Next: next, Failures: 3, Restarts: 4, LastLog: []string{"no"}},
			control.HandlerStatus{State: "backing off", Reason: "it exited", Next: next, Failures: 3, Restarts: 4, LastLog: []string{"no"}}},
		{host.Status{State: host.Refused, Reason: "no", Next: next}, control.HandlerStatus{State: "refused", Reason: "no", Next: next}},
		{host.Status{State: host.Wedged, Reason: "silent", Problem: "no disk", PID: 1, Next: next}, control.HandlerStatus{State: "wedged", Reason: "silent", Problem: "no disk", PID: 1}},
		{host.Status{State: host.Running, Endpoints: []host.Endpoint{
			{Address: "10.0.0.1:1", Status: host.Status{State: host.Running, Next: next, InFlight: 3, Handler: host.Description{Name: "page"}}},
			{Address: "10.0.0.2:1", Status: host.Status{State: host.BackingOff, Reason: "gone", Next: next, Failures: 2, Restarts: 5}},
		}}, control.HandlerStatus{State: "running", Endpoints: []control.EndpointStatus{
			{Address: "10.0.0.1:1", State: "running", InFlight: 3, Program: "page"},
			{Address: "10.0.0.2:1", State: "backing off", Reason: "gone", Next: next, Failures: 2, Restarts: 5},
		}}},
		{host.Status{State: host.Running, Slow: host.Slow{Events: 2, IsFull: true, Longest: []outbox.Working{
			{Rule: "r", Resource: handler.Resource{Version: "v1", Resource: "pods"}, Namespace: "shop", Name: "web-0", Since: next},
			{Rule: "r", Resource: handler.Resource{Version: "v1", Resource: "nodes"}, Name: "one", Since: next},
		}}}, control.HandlerStatus{State: "running", Slow: 2, Full: true, Longest: []control.WorkingStatus{
			{Rule: "r", Object: "pods/shop/web-0", Since: next}, {Rule: "r", Object: "nodes/one", Since: next},
		}}},
		{host.Status{State: host.Starting, Next: next}, control.HandlerStatus{State: "starting"}},
	} {
		c.want.Name = "page"
		if diff := cmp.Diff(c.want, hostStatus("page", c.status)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.status.State, diff)
		}
	}
}

// The commands know some names of the engine and of the hosts without importing them.
func TestCommandNames(t *testing.T) {
	if control.OwnActions != engine.OwnActions || control.Running != string(host.Running) {
		t.Errorf("control has %q and %q, the daemon %q and %q", control.OwnActions, control.Running, engine.OwnActions, host.Running)
	}
}
