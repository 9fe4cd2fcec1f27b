package integration

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func (s *stage) reload(handler string) (code int, stdout, stderr string) {
	s.t.Helper()
	return runCommand(s.t, s.informd, "handler", "reload", handler, "--state-dir", s.state)
}

// A handler's executable is replaced fifty times under load, and taken up each time: nothing is lost, nothing comes twice,
// and order is kept per object from one process to the next.
func TestReloadUnderLoad(t *testing.T) {
	const reloads = 50
	rate := 1000
	if testing.Short() {
		rate = 200
	}
	s := newStage(t, "")
	s.informd = plainInformd(t)
	s.open(t, nil)
	s.awaitRunning("steady")
	s.awaitDelivered()
	before := s.holdings()
	began := time.Now()
	s.play(rate)
	done := `informd_handler_deliveries_total{handler="steady",result="done",rule="steady"}`
	want := []string{"v0"}
	for n := range reloads {
		version := fmt.Sprintf("v%d", n+1)
		want = append(want, version)
		install(t, filepath.Join(s.dir, "player"), version)
		if n%2 == 1 { // every other time with its digest
			content, err := os.ReadFile(filepath.Join(s.dir, "player"))
			if err != nil {
				t.Fatal(err)
			}
			s.write(t, fmt.Sprintf("%s, sha256: %x", steadySpec, sha256.Sum256(content)), "")
		} else {
			s.write(t, steadySpec, "")
		}
		if code, _, stderr := s.reload("steady"); code != 0 {
			t.Fatalf("reload %d: exit code %d\n%s", n+1, code, stderr)
		}
		if h := s.statusOf("steady"); h.Program != "player "+version {
			t.Fatalf("informd status has steady as %q, want version %q", h.Program, version)
		}
		so := s.metric(done)
		s.poll("the new process to work", func() bool { return s.metric(done) != so })
	}
	over := time.Now()
	s.rest()

	entries := s.wantSteady()
	took := s.took(entries, began, over)
	t.Logf("%d reloads in %v beside %d events per second; from change to handler: %s", reloads, over.Sub(began).Round(time.Second), rate, summary(took))
	var versions []string
	processes := make(map[int]string)
	for _, e := range entries {
		if versions == nil || versions[len(versions)-1] != e.player {
			versions = append(versions, e.player)
		}
		if was := processes[e.pid]; was != "" && was != e.player {
			t.Fatalf("process %d was %s and is %s", e.pid, was, e.player)
		}
		processes[e.pid] = e.player
	}
	if !slices.Equal(versions, want) {
		t.Errorf("the versions took turns as %v, want %v", versions, want)
	}
	if len(processes) != reloads+1 {
		t.Errorf("%d processes, want %d", len(processes), reloads+1)
	}
	if n := s.restarts("steady"); n != reloads {
		t.Errorf("%d restarts are counted; want each reload", n)
	}
	s.wantHoldings(before, "reloads")
	s.stop()
}

// A reload that comes to nothing changes nothing: the process that was there goes on with its work, until one succeeds.
func TestReloadThatFails(t *testing.T) {
	s := setStage(t, "")
	s.awaitRunning("steady")
	s.awaitDelivered()
	was := s.playing("steady")
	before := s.holdings()
	s.play(200)
	path := filepath.Join(s.dir, "player")
	for _, test := range []struct {
		name    string
		prepare func()
		handler string
		says    []string
	}{
		{"no such handler", func() {}, "stedy", []string{"stedy"}},
		{"a version that does not start", func() { install(t, path, "v1 crashes") }, "steady", []string{"this version cannot start"}},
		{"a version that refuses its config", func() { install(t, path, "v2 refuses") }, "steady", []string{"this version knows no such config"}},
		{"another digest", func() {
			install(t, path, "v3")
			s.write(t, steadySpec+", sha256: "+strings.Repeat("0", 64), "")
		}, "steady", []string{"sha256"}},
		{"no executable", func() {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			s.write(t, steadySpec, "")
		}, "steady", []string{"player"}},
		{"a mistake in the manifests", func() {
			install(t, path, "v4")
			s.write(t, steadySpec+", retrry: 1", "")
		}, "steady", []string{"retrry", "rules.yaml:"}},
		{"manifests without it", func() {
			if err := os.WriteFile(s.rules(), []byte(source("widgets", "resource: informd.test/v1/widgets")), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "steady", []string{"steady"}},
	} {
		test.prepare()
		code, _, stderr := s.reload(test.handler)
		if code != 1 {
			t.Errorf("%s: exit code %d, want 1", test.name, code)
		}
		for _, text := range test.says {
			if !strings.Contains(stderr, text) {
				t.Errorf("%s: it does not say %q: %s", test.name, text, stderr)
			}
		}
		t.Logf("%s: %s", test.name, stderr)
		if now := s.playing("steady"); !slices.Equal(now, was) {
			t.Errorf("%s: steady are the processes %v, before %v", test.name, now, was)
		}
		if h := s.statusOf("steady"); h.Program != "player v0" || h.State != "running" {
			t.Errorf("%s: steady is %+v", test.name, h)
		}
	}
	install(t, path, "v5")
	s.write(t, steadySpec, "")
	if code, _, stderr := s.reload("steady"); code != 0 {
		t.Errorf("a version that is well: exit code %d\n%s", code, stderr)
	}
	s.poll("the new version to be told of something", func() bool {
		entries := s.ledger()
		return entries[len(entries)-1].player == "v5"
	})
	s.rest()
	last := "v0"
	for _, e := range s.wantSteady() {
		if e.player != last && e.player != "v5" {
			t.Fatalf("%s was told to %s after %s", e.name, e.player, last)
		}
		last = e.player
	}
	if last != "v5" {
		t.Errorf("the last was told to %s, want v5", last)
	}
	s.wantHoldings(before, "reloads that failed")
	s.stop()
}

// A reload is also how an operator brings a handler back that is in trouble: one that is not there, one that refused its
// config, one that hangs. What waited for them is delivered then, and nobody else is disturbed.
func TestReloadOfHandlersInTrouble(t *testing.T) {
	manifests := func(absent, refuses string) string {
		return toldBy("absent", "command: ["+absent+", victim, none, ./tempting]") +
			toldBy("refuses", "builtin: exec, config: {command: ["+refuses+"]}") +
			toldBy("hangs", "command: [./player, victim, freezes, ./tempting], timeout: 2s, retry: {backoff: 10ms}") +
			ruleFor("absent", "source: widgets, handler: absent") +
			ruleFor("refuses", "source: widgets, handler: refuses, where: object.metadata.name == 'widget-0000'") +
			ruleFor("hangs", "source: widgets, handler: hangs")
	}
	s := setStage(t, manifests("./no-such-player", "/no/such/command"))
	s.awaitRunning("steady", "hangs")
	s.poll("what is there to be delivered", func() bool { return s.waiting("steady")+s.waiting("hangs") == 0 })
	s.tempt(true)
	s.play(100)
	s.awaitState("refuses", "refused")
	s.poll("a handler to hang", func() bool {
		pids := s.playing("victim", "freezes")
		if len(pids) != 1 {
			return false
		}
		fields, err := processStat(pids[0])
		return err == nil && fields[0] == "T"
	})
	s.poll("a long pause", func() bool { return time.Until(s.statusOf("absent").Next) > 5*time.Second })

	s.tempt(false)
	s.write(t, steadySpec, manifests("./player", "/bin/true"))
	for _, handler := range []string{"absent", "refuses", "hangs"} {
		if code, _, stderr := s.reload(handler); code != 0 {
			t.Errorf("%s: exit code %d\n%s", handler, code, stderr)
		}
		if h := s.statusOf(handler); h.State != "running" {
			t.Errorf("%s is not running after a reload: %+v", handler, h)
		}
	}
	s.rest()
	s.awaitDelivered()
	s.wantSteady()
	if got := s.metric("informd_dead_letters"); got != "0" {
		t.Errorf("%s dead letters", got)
	}
	s.stop()
}
