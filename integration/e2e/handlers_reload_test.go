package e2e

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/integration/harness"
)

// The test replaces a handler's executable many times under load and reloads it. Nothing is lost,
// nothing comes twice, and each object's events stay in order from one process to the next.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	reloads, rate := 20, 100
	if harness.Soak() {
		reloads, rate = 50, 1000
	}
	s := harness.NewStage(t, "")
	s.Informd = harness.Binary
	// The handler steady is slow, so it always has events when it is replaced.
	s.Where += ", env: [PLAYER_PAUSE]"
	s.Write(t, harness.SteadySpec, "")
	s.Open(t, nil, "PLAYER_PAUSE=20ms")
	s.AwaitRunning("steady")
	s.AwaitDelivered()
	before := s.Holdings()
	began := time.Now()
	s.Play(rate)
	done := `informd_handler_deliveries_total{handler="steady",result="done",rule="steady"}`
	want := []string{"v0"}
	for n := range reloads {
		version := fmt.Sprintf("v%d", n+1)
		want = append(want, version)
		harness.Install(t, filepath.Join(s.Dir, "player"), version)
		if n%2 == 1 { // with its digest every other time
			content, err := os.ReadFile(filepath.Join(s.Dir, "player"))
			if err != nil {
				t.Fatal(err)
			}
			s.Write(t, fmt.Sprintf("%s, sha256: %x", harness.SteadySpec, sha256.Sum256(content)), "")
		} else {
			s.Write(t, harness.SteadySpec, "")
		}
		if code, _, stderr := s.Reload("steady"); code != 0 {
			t.Fatalf("reload %d: exit code %d\n%s", n+1, code, stderr)
		}
		if h := s.StatusOf("steady"); h.Program != "player "+version {
			t.Fatalf("informd status has steady as %q, want version %q", h.Program, version)
		}
		so := s.Metric(done)
		s.Poll("the new process to work", func() bool { return s.Metric(done) != so })
	}
	over := time.Now()
	s.Rest()

	entries := s.WantSteady()
	took := s.Took(entries, began, over)
	t.Logf("%d reloads in %v beside %d events per second; from change to handler: %s", reloads, over.Sub(began).Round(time.Second), rate, harness.Summary(took))
	var versions []string
	processes := make(map[int]string)
	for _, e := range entries {
		if versions == nil || versions[len(versions)-1] != e.Player {
			versions = append(versions, e.Player)
		}
		if was := processes[e.Pid]; was != "" && was != e.Player {
			t.Fatalf("process %d was %s and is %s", e.Pid, was, e.Player)
		}
		processes[e.Pid] = e.Player
	}
	if !slices.Equal(versions, want) {
		t.Errorf("the versions took turns as %v, want %v", versions, want)
	}
	if len(processes) != reloads+1 {
		t.Errorf("%d processes, want %d", len(processes), reloads+1)
	}
	if n := s.Restarts("steady"); n != reloads {
		t.Errorf("%d restarts are counted; want each reload", n)
	}
	s.WantHoldings(before, "reloads")
	s.Stop()
}

// A reload that fails changes nothing: the old process goes on until a reload succeeds.
func TestReloadThatFails(t *testing.T) {
	t.Parallel()
	s := harness.SetStage(t, "")
	s.AwaitRunning("steady")
	s.AwaitDelivered()
	was := s.Playing("steady")
	before := s.Holdings()
	s.Play(200)
	path := filepath.Join(s.Dir, "player")
	for _, test := range []struct {
		name    string
		prepare func()
		handler string
		says    []string
	}{
		{"no such handler", func() {}, "stedy", []string{"stedy"}},
		{"a version that does not start", func() { harness.Install(t, path, "v1 crashes") }, "steady", []string{"this version cannot start"}},
		{"a version that refuses its config", func() { harness.Install(t, path, "v2 refuses") }, "steady", []string{"this version knows no such config"}},
		{"another digest", func() {
			harness.Install(t, path, "v3")
			s.Write(t, harness.SteadySpec+", sha256: "+strings.Repeat("0", 64), "")
		}, "steady", []string{"sha256"}},
		{"no executable", func() {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			s.Write(t, harness.SteadySpec, "")
		}, "steady", []string{"player"}},
		{"a mistake in the manifests", func() {
			harness.Install(t, path, "v4")
			s.Write(t, harness.SteadySpec+", retrry: 1", "")
		}, "steady", []string{"retrry", "rules.yaml:"}},
		{"manifests without it", func() {
			if err := os.WriteFile(s.Rules(), []byte(harness.Source("widgets", "resource: informd.test/v1/widgets")), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "steady", []string{"steady"}},
	} {
		test.prepare()
		code, _, stderr := s.Reload(test.handler)
		if code != 1 {
			t.Errorf("%s: exit code %d, want 1", test.name, code)
		}
		for _, text := range test.says {
			if !strings.Contains(stderr, text) {
				t.Errorf("%s: it does not say %q: %s", test.name, text, stderr)
			}
		}
		t.Logf("%s: %s", test.name, stderr)
		if now := s.Playing("steady"); !slices.Equal(now, was) {
			t.Errorf("%s: steady are the processes %v, before %v", test.name, now, was)
		}
		if h := s.StatusOf("steady"); h.Program != "player v0" || h.State != "running" {
			t.Errorf("%s: steady is %+v", test.name, h)
		}
	}
	harness.Install(t, path, "v5")
	s.Write(t, harness.SteadySpec, "")
	if code, _, stderr := s.Reload("steady"); code != 0 {
		t.Errorf("a version that is well: exit code %d\n%s", code, stderr)
	}
	s.Poll("the new version to be told of something", func() bool {
		entries := s.Ledger()
		return entries[len(entries)-1].Player == "v5"
	})
	s.Rest()
	last := "v0"
	for _, e := range s.WantSteady() {
		if e.Player != last && e.Player != "v5" {
			t.Fatalf("%s was told to %s after %s", e.Name, e.Player, last)
		}
		last = e.Player
	}
	if last != "v5" {
		t.Errorf("the last was told to %s, want v5", last)
	}
	s.WantHoldings(before, "reloads that failed")
	s.Stop()
}

// A reload also repairs a handler in trouble: one whose executable is missing, one that refused its
// config, one that hangs. informd then delivers what waited for it, and disturbs no other handler.
func TestReloadOfFailingHandlers(t *testing.T) {
	t.Parallel()
	manifests := func(absent, refuses string) string {
		return harness.Handler("absent", "command: ["+absent+", victim, none, ./tempting]") +
			harness.Handler("refuses", "builtin: exec, config: {command: ["+refuses+"]}") +
			harness.Handler("hangs", "command: [./player, victim, freezes, ./tempting], timeout: 2s, retry: {backoff: 10ms}") +
			harness.Rule("absent", "source: widgets, handler: absent") +
			harness.Rule("refuses", "source: widgets, handler: refuses, where: object.metadata.name == 'widget-0000'") +
			harness.Rule("hangs", "source: widgets, handler: hangs")
	}
	s := harness.SetStage(t, manifests("./no-such-player", "/no/such/command"))
	s.AwaitRunning("steady", "hangs")
	s.Poll("what is there to be delivered", func() bool { return s.Waiting("steady")+s.Waiting("hangs") == 0 })
	s.Tempt(true)
	s.Play(100)
	s.AwaitState("refuses", "refused")
	s.Poll("a handler to hang", func() bool {
		pids := s.Playing("victim", "freezes")
		return len(pids) == 1 && harness.IsStopped(pids[0])
	})
	s.Poll("a long pause", func() bool { return time.Until(s.StatusOf("absent").Next) > 5*time.Second })

	s.Tempt(false)
	s.Write(t, harness.SteadySpec, manifests("./player", "/bin/true"))
	for _, handler := range []string{"absent", "refuses", "hangs"} {
		if code, _, stderr := s.Reload(handler); code != 0 {
			t.Errorf("%s: exit code %d\n%s", handler, code, stderr)
		}
		if h := s.StatusOf(handler); h.State != "running" {
			t.Errorf("%s is not running after a reload: %+v", handler, h)
		}
	}
	s.Rest()
	s.AwaitDelivered()
	s.WantSteady()
	if got := s.Metric("informd_dead_letters"); got != "0" {
		t.Errorf("%s dead letters", got)
	}
	s.Stop()
}

// Handlers that refuse their new config, or that cannot be started any more, keep the reload of all
// manifests from changing anything: those that work go on, with the rules as they were.
func TestReloadKeepsHandlersThatWork(t *testing.T) {
	t.Parallel()
	const hooked, more = "builtin: webhook, config: {url: 'http://127.0.0.1:9'", "config: {a: 2}, "
	extra := func(hook string) string {
		return harness.Handler("hook", hook) +
			harness.Rule("hook", "source: widgets, handler: hook, where: object.metadata.name == 'none'")
	}
	s := harness.SetStage(t, extra(hooked+"}"))
	s.AwaitRunning("steady", "hook")
	s.AwaitDelivered()
	steady, hook := s.Playing("steady"), s.StatusOf("hook").PID
	before := s.Holdings()
	s.Play(100)
	path := filepath.Join(s.Dir, "player")
	begun := harness.Rule("begun", "source: widgets, handler: steady")
	for _, test := range []struct {
		name, mark, steady, manifests string
		says                          []string
	}{
		{"a builtin", "", harness.SteadySpec, extra(hooked + ", urll: x}"),
			[]string{`handler "hook" refuses its config: unknown field "urll"`, "rules.yaml:", "1 mistake in the manifests: nothing was changed"}},
		{"a new one", "", harness.SteadySpec, extra(hooked+"}") + harness.Handler("third", "builtin: exec, config: {commandd: [a]}") +
			harness.Rule("third", "source: widgets, handler: third"), []string{`unknown field "commandd"`, "nothing was changed"}},
		{"a process", "v2 refuses", more + harness.SteadySpec, extra(hooked + "}"),
			[]string{`handler "steady" refuses its config: this version knows no such config`, "nothing was changed"}},
		{"one that cannot start", "v3 crashes", more + harness.SteadySpec, extra(hooked + "}"),
			[]string{"handler steady cannot be started", "this version cannot start", "nothing was changed"}},
	} {
		if test.mark != "" {
			harness.Install(t, path, test.mark)
		}
		s.Write(t, test.steady, test.manifests+begun)
		if strings.Contains(test.says[0], "unknown field") {
			code, stdout, stderr := harness.RunCommand(t, harness.Binary, "plan", "--state-dir", s.State)
			if code != 1 || !strings.Contains(stderr, test.says[0]) {
				t.Errorf("%s: informd plan: exit code %d\n%s%s", test.name, code, stdout, stderr)
			}
		}
		code, stdout, stderr := harness.RunCommand(t, harness.Binary, "reload", "--state-dir", s.State)
		if code != 1 {
			t.Errorf("%s: exit code %d\n%s%s", test.name, code, stdout, stderr)
		}
		for _, text := range test.says {
			if !strings.Contains(stderr, text) {
				t.Errorf("%s: it does not say %q: %s", test.name, text, stderr)
			}
		}
		if now := s.Playing("steady"); !slices.Equal(now, steady) {
			t.Errorf("%s: steady are the processes %v, before %v", test.name, now, steady)
		}
		for _, name := range []string{"steady", "hook"} {
			if h := s.StatusOf(name); h.State != "running" || name == "hook" && h.PID != hook {
				t.Errorf("%s: %+v, hook was process %d", test.name, h, hook)
			}
		}
		if got := s.Metric("informd_config_last_reload_successful"); got != "0" {
			t.Errorf("%s: the metric says %s", test.name, got)
		}
		if _, body := s.Get("/metrics"); strings.Contains(body, `rule="begun"`) {
			t.Errorf("%s: another rule has begun", test.name)
		}
	}
	harness.Install(t, path, "v5")
	s.Write(t, more+harness.SteadySpec, extra(hooked+", timeout: 2s}"))
	if code, stdout, stderr := harness.RunCommand(t, harness.Binary, "reload", "--state-dir", s.State); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	s.Poll("the new version to be told of something", func() bool {
		entries := s.Ledger()
		return entries[len(entries)-1].Player == "v5"
	})
	s.Rest()
	s.WantSteady()
	s.WantHoldings(before, "reloads that failed")
	s.Stop()
}
