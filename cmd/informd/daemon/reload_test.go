package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/cmd/informd/launch"
	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/config"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/confine"
)

// process is a fake handler process. It records the specs of its reloads.
type process struct {
	specs []host.Spec
	err   error
	under func() // what happens while it is being reloaded; may be nil

	allowed []string // the calls of the engine
}

func (p *process) allow(h config.Handler) (done func(stands bool)) {
	p.allowed = append(p.allowed, fmt.Sprintf("%s: %d grant", h.Name, len(h.Write)))
	return func(stands bool) { p.allowed = append(p.allowed, fmt.Sprint("stands: ", stands)) }
}

func (p *process) Reload(_ context.Context, spec host.Spec) error {
	p.specs = append(p.specs, spec)
	if p.under != nil {
		p.under()
	}
	return p.err
}

func (p *process) Status() host.Status { return host.Status{PID: 4711} }

const reloadable1 = `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: all}
spec: {source: pods, handler: oncall}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: idle}
spec: {builtin: log}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: oncall}
spec:
  command: [./oncall, "1"]
`
const asNobody = "  user: nobody\n"

// reloading returns a reloader that started with reloadable1, as user nobody, in the working
// directory.
func reloading(t *testing.T) (r *reloader, p *process, write func(text string)) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	write = func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(reloadable1 + asNobody)
	cfg, compiled, err := manifests.Load([]string{"rules.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	folders, err := launch.NewFolders(compiled.Handlers, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(folders.Remove)
	p = new(process)
	r = &reloader{
		load: func(context.Context) (*config.Config, error) {
			cfg, _, err := manifests.Load([]string{"rules.yaml"})
			return cfg, err
		},
		log:     slog.New(slog.DiscardHandler),
		process: func(name string) (reloadable, bool) { return p, name == "oncall" },
		allow:   p.allow,

		reloaded: func(config.Handler) {},
		running:  func() *running { return &running{cfg, compiled} },
		folders:  folders,
	}
	return r, p, write
}

// A reload uses the current manifest of the process, and reports the fields that it does not apply.
func TestReload(t *testing.T) {
	r, p, write := reloading(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	write(reloadable1 + `
  config: {a: 1}
  env: [INFORMD_TEST_SET, INFORMD_TEST_UNSET]
  concurrency: 4
  retry: {attempts: 3}
  user: nobody
  limits: {memory: 64Mi}
  sandbox: true
  files: {read: [templates], write: [/var/lib/oncall]}
  network: [443]
  access: {read: [pods, nodes], write: [{resource: v1/pods, verbs: [patch]}]}
---
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: nodes}, spec: {resource: v1/nodes}}
`)
	t.Setenv("INFORMD_TEST_SET", "x")
	got, err := r.reload(t.Context(), "oncall")
	if err != nil {
		t.Fatal(err)
	}
	want := control.Reloaded{PID: 4711, Notes: []string{
		"concurrency, retry: informd reload takes that up",
		"access.read: source nodes is new: informd reload takes that up",
		"access.write: the handler had none before: informd reload takes that up",
		"env: not set in informd's environment: INFORMD_TEST_UNSET",
		"a reload of a handler changes that one; informd reload takes up these, too: source nodes is new",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(p.specs) != 1 {
		t.Fatalf("%d reloads", len(p.specs))
	}
	if want := []string{"oncall: 1 grant", "stands: true"}; !slices.Equal(p.allowed, want) {
		t.Errorf("allowed: %q, want %q", p.allowed, want)
	}
	spec := p.specs[0]
	if spec.Path != filepath.Join(dir, "oncall") || string(spec.Config) != `{"a":1}` || !cmp.Equal(spec.Env, []string{"INFORMD_TEST_SET=x"}) || !cmp.Equal(spec.Read, []string{"pods", "nodes"}) {
		t.Errorf("reloaded with %+v", spec)
	}
	confined := confine.Spec{
		User: "nobody", Limits: confine.Limits{Memory: 64 << 20}, Sandbox: true,
		Read: []string{filepath.Join(dir, "templates")}, Write: []string{"/var/lib/oncall"}, Network: confine.Network{Ports: []uint16{443}},
	}
	if diff := cmp.Diff(confined, spec.Confine); diff != "" {
		t.Errorf("confined to (-want +got)\n%s", diff)
	}
}

// A handler is reloaded with another manifest, which is then taken back. The next reload of all
// manifests replaces its process. A process that has the plan's manifest stays.
func TestReloadAfterThatOfAHandler(t *testing.T) {
	r, _, write := reloading(t)
	configured := r.running().plan.Handlers
	h, err := newHandlers(configured, r.folders, false, nil, r.log)
	if err != nil {
		t.Fatal(err)
	}
	r.reloaded = h.reloaded
	for _, c := range []struct {
		more  string
		stays bool
	}{{"", true}, {"  access: {read: [pods]}\n", false}, {"", true}} {
		write(reloadable1 + asNobody + c.more)
		if _, err := r.reload(t.Context(), "oncall"); err != nil {
			t.Fatal(err)
		}
		for _, areRead := range []bool{true, false} { // otherwise nobody has taken anything back
			next, err := h.next(configured, areRead)
			if err != nil {
				t.Fatal(err)
			}
			if stays := next.named("oncall") == h.all.named("oncall"); stays != (c.stays || !areRead) {
				t.Errorf("after a reload with %q the process stays: %v (manifests are read: %v)", c.more, stays, areRead)
			}
		}
	}
}

// Whatever is in the way, nothing is reloaded, and whoever asked knows why.
func TestReloadRefused(t *testing.T) {
	for _, c := range []struct {
		name, handler string
		change        func(*reloader, *process)
		manifests     string
		want          string
		report        string
		tried         bool
	}{
		{name: "nobody", handler: "onkall", want: control.ErrNotFound.Error()},
		{name: "no rule named it", handler: "idle", want: "handler idle does not run: no rule named it when informd read its manifests"},
		{name: "it is gone", handler: "oncall", manifests: strings.ReplaceAll(reloadable1, "oncall", "page"),
			want: "handler oncall is no longer in the manifests: it goes on as it is"},
		{name: "mistakes", handler: "oncall", manifests: reloadable1 + "  timeout: 3\n  retries: 1\n",
			want: "2 mistakes in the manifests: nothing was changed", report: "missing its unit: write 3s for seconds, 3m for minutes\n    timeout: 3\n             ^\nrules.yaml:23:3: "},
		{name: "a mistake elsewhere", handler: "oncall", manifests: strings.Replace(reloadable1, "v1/pods", "pods", 1),
			want: "1 mistake in the manifests: nothing was changed", report: "rules.yaml:5:18: "},
		{name: "no manifests", handler: "oncall", change: func(r *reloader, _ *process) {
			r.load = func(context.Context) (*config.Config, error) {
				cfg, _, err := manifests.Load([]string{"gone.yaml", "away.yaml"})
				return cfg, err
			}
		},
			want: "the manifests cannot be read: nothing was changed", report: "gone.yaml does not exist\naway.yaml does not exist"},
		{name: "a dry run", handler: "oncall", change: func(r *reloader, _ *process) { r.dryRun = true },
			want: "this informd is a dry run, which starts no handler but log"},
		{name: "a dry run's handler", handler: "oncall", change: func(r *reloader, _ *process) {
			r.process = func(string) (reloadable, bool) { return nil, false }
		}, want: "this informd is a dry run"},
		{name: "a user that is new", handler: "oncall", manifests: reloadable1 + asNobody, change: func(r *reloader, _ *process) { r.folders = new(launch.Folders) },
			want: "no handler had one when informd started"},
		{name: "one that is elsewhere", handler: "oncall", change: func(r *reloader, _ *process) { r.running().plan.Handlers[0].Remote = &config.Remote{} },
			want: "handler oncall runs elsewhere: roll it out there"},
		{name: "one that has moved", handler: "oncall",
			manifests: strings.Replace(reloadable1, `command: [./oncall, "1"]`, `{address: "dns:///oncall:1", tls: {ca: a, cert: b, key: c}}`, 1),
			want:      "it is remote now, and was not before"},
		{name: "the new one does not work", handler: "oncall", change: func(_ *reloader, p *process) { p.err = errors.New("it refuses its config: no") },
			want: "handler oncall was not reloaded and goes on as it was: it refuses its config: no", tried: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, p, write := reloading(t)
			if c.change != nil {
				c.change(r, p)
			}
			if c.manifests != "" {
				write(c.manifests)
			}
			got, err := r.reload(t.Context(), c.handler)
			if err == nil || !strings.Contains(err.Error(), c.want) || got.PID != 0 {
				t.Errorf("got %+v, %v", got, err)
			}
			said, ok := errors.AsType[*control.Error](err)
			if !ok {
				said = new(control.Error)
			}
			if c.report != "" && !strings.Contains(said.Report, c.report) {
				t.Errorf("the report is %q", said.Report)
			}
			if tried := len(p.specs) > 0; tried != c.tried {
				t.Errorf("tried: %v", tried)
			}
			if slices.Contains(p.allowed, "stands: true") {
				t.Error("it may by now what the manifest says")
			}
		})
	}
}

// informd's folders stay open to other users if a handler had one when informd started, also once
// none has.
func TestReloadGivesUserBack(t *testing.T) {
	r, p, write := reloading(t)
	began := *r.running()
	withoutUser := *began.plan
	withoutUser.Handlers = slices.Clone(began.plan.Handlers)
	for i := range withoutUser.Handlers {
		withoutUser.Handlers[i].User = ""
	}
	r.running = func() *running { return &running{began.cfg, &withoutUser} }
	write(reloadable1 + asNobody)
	if _, err := r.reload(t.Context(), "oncall"); err != nil || len(p.specs) != 1 {
		t.Errorf("%v; %d reloads", err, len(p.specs))
	}
}

// A reload is cancelled if its client no longer waits, and the log says so.
func TestReloadCancelled(t *testing.T) {
	r, p, _ := reloading(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.err = ctx.Err()
	var log bytes.Buffer
	r.log = slog.New(slog.NewTextHandler(&log, nil))
	if _, err := r.reload(ctx, "oncall"); err == nil || !strings.Contains(log.String(), "called off: the command that asked for it has ended") {
		t.Errorf("%v, and the log says %s", err, log.String())
	}
}

// The second of two concurrent reloads reads the manifests once the first has ended. Its wait is
// bounded.
func TestConcurrentReloads(t *testing.T) {
	r, p, write := reloading(t)
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		p.under = func() { <-goOn }
		var errs [2]error
		go func() { _, errs[0] = r.reload(t.Context(), "oncall") }()
		synctest.Wait()
		go func() { _, errs[1] = r.reload(t.Context(), "oncall") }()
		ctx, cancel := context.WithCancel(t.Context())
		var given error
		go func() { _, given = r.reload(ctx, "oncall") }()
		synctest.Wait()
		if len(p.specs) != 1 {
			t.Fatalf("%d reloads under way", len(p.specs))
		}
		cancel()
		synctest.Wait()
		if given == nil || !strings.Contains(given.Error(), "called off") {
			t.Errorf("one whose command has ended: %v", given)
		}
		write(strings.Replace(reloadable1, `"1"`, `"2"`, 1))
		close(goOn)
		synctest.Wait()
		if errs[0] != nil || errs[1] != nil || len(p.specs) != 2 || p.specs[1].Args[0] != "2" {
			t.Errorf("%v, %+v", errs, p.specs)
		}
	})
}
