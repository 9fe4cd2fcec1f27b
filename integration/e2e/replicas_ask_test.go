package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// ask runs a command for a replica, which has to succeed, and returns what it prints. It tries again
// while another replica takes over.
func (r *replicated) ask(one *replicaUnderTest, args ...string) string {
	r.t.Helper()
	code, stdout, stderr := 0, "", ""
	for began := time.Now(); time.Since(began) < harness.Patience; time.Sleep(200 * time.Millisecond) {
		code, stdout, stderr = harness.Informd(r.t, append(args, "--state-dir", one.dir)...)
		if !strings.Contains(stderr, "Nothing was done: try again") {
			break
		}
	}
	if code != 0 {
		r.t.Fatalf("informd %s for replica %s ends with %d: %s%s",
			strings.Join(args, " "), one.name, code, stdout, stderr)
	}
	return stdout
}

// statusOf returns what informd status for a replica prints.
func (r *replicated) statusOf(one *replicaUnderTest) (s control.Status) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.ask(one, "status", "-o", "json")), &s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// deadLetters returns the ids of the dead letters, as a replica lists them.
func (r *replicated) deadLetters(one *replicaUnderTest) (ids []string) {
	r.t.Helper()
	var found struct{ Items []control.Letter }
	if err := json.Unmarshal([]byte(r.ask(one, "dead", "list", "-o", "json")), &found); err != nil {
		r.t.Fatal(err)
	}
	for _, l := range found.Items {
		ids = append(ids, l.ID)
	}
	return ids
}

// watchEvents runs informd events -w for a replica until the end of the test, and returns what it has
// printed so far.
func (r *replicated) watchEvents(one *replicaUnderTest) (printed func() string) {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "events")
	out, err := os.Create(path)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(harness.Binary, "events", "-w", "--state-dir", one.dir)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
	})
	printed = func() string {
		text, _ := os.ReadFile(path)
		return string(text)
	}
	r.poll("the first events", func() bool { return strings.Contains(printed(), "/one") })
	return printed
}

// TestAFollowerIsAsked asks a replica that follows, as an operator does who knows only one of them:
// first while another one leads, then while none does, and then again.
func TestAFollowerIsAsked(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	r := newReplicated(t, c, harness.Seed(t), nil)
	mended := filepath.Join(t.TempDir(), "mended")
	r.manifest = k.Text(harness.Source("configmaps", harness.ConfigMaps) +
		harness.Source("secrets", "resource: v1/secrets, namespaces: [NS]") +
		harness.Handler("check", fmt.Sprintf("builtin: exec, env: [PATH], "+
			"config: {command: [test, -e, %q]}, retry: {attempts: 1}", mended)) +
		harness.Rule("settings", "source: configmaps, handler: check, where: object.data.a != nil"))
	r.startAll()
	leader := r.awaitAll()
	others := slices.DeleteFunc(slices.Clone(r.replicas), func(one *replicaUnderTest) bool {
		return one == leader
	})
	follower := others[0]
	if s := r.statusOf(follower); s.Replica != leader.name || s.PID != leader.daemon.Cmd.Process.Pid {
		t.Errorf("the status comes from %q, process %d", s.Replica, s.PID)
	}
	if says := r.ask(follower, "status"); !strings.Contains(says, "replica "+leader.name+", which leads") {
		t.Error(says)
	}
	k.Create(harness.ConfigMap("one", `{a: b}`))
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: hidden}, stringData: {key: xyzzy}}`)
	var dead []string
	r.poll("a dead letter", func() bool {
		dead = r.deadLetters(follower)
		return len(dead) == 1
	})
	if says := r.ask(follower, "get", "configmaps", k.Ns+"/one", "-o", "json"); !strings.Contains(says, `"a": "b"`) {
		t.Error(says)
	}
	r.poll("the Secret", func() bool {
		return strings.Contains(r.ask(follower, "get", "secrets"), "hidden")
	})
	if says := r.ask(follower, "get", "secrets", k.Ns+"/hidden", "-o", "json"); !strings.Contains(says, "***") {
		t.Errorf("a Secret is not masked: %s", says)
	}
	if says := r.ask(follower, "events"); !strings.Contains(says, "a dead letter") {
		t.Error(says)
	}
	if says := r.ask(follower, "explain", "settings", k.Ns+"/one"); !strings.Contains(says, "dead letter") {
		t.Error(says)
	}
	isPaused := func() bool {
		return r.statusOf(leader).Rules[0].Paused
	}
	r.ask(follower, "rule", "pause", "settings")
	if !isPaused() {
		t.Error("the rule is not paused")
	}
	r.ask(follower, "rule", "resume", "settings")
	if isPaused() {
		t.Error("the rule is still paused")
	}
	if err := os.WriteFile(mended, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.ask(follower, "dead", "retry", dead[0])
	r.poll("the dead letter to be delivered", func() bool {
		return len(r.deadLetters(follower)) == 0 && strings.Contains(r.ask(follower, "events"), "acknowledged")
	})
	r.ask(follower, "reload")
	code, _, stderr := harness.Informd(t, "cluster", "hand-over", "--state-dir", follower.dir)
	if code != 1 || !strings.Contains(stderr, leader.name) {
		t.Errorf("a follower hands over: %d, %s", code, stderr)
	}

	watched := r.watchEvents(follower)
	for _, one := range r.replicas {
		if one != follower {
			r.kill(one)
		}
	}
	r.poll("the follower to know of no leader", func() bool {
		s, ok := r.status(follower)
		return ok && s.Leader == ""
	})
	code, stdout, stderr := harness.Informd(t, "status", "--state-dir", follower.dir)
	if code != 1 || !strings.Contains(stdout, "this is what a replica knows alone") ||
		!strings.Contains(stdout, "unreachable") || !strings.Contains(stderr, "knows no replica that leads") {
		t.Errorf("status without a leader: %d, %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = harness.Informd(t, "status", "-o", "json", "--state-dir", follower.dir)
	var alone struct {
		NoLeader string
		Cluster  control.Cluster
	}
	err := json.Unmarshal([]byte(stdout), &alone)
	if code != 1 || err != nil || alone.NoLeader == "" || !alone.Cluster.Stale {
		t.Errorf("status without a leader: %d, %s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{
		{"rule", "pause", "settings"}, {"dead", "retry", "--all", "--yes"}, {"dead", "list"},
		{"get", "configmaps"}, {"events"},
	} {
		code, stdout, stderr := harness.Informd(t, append(args, "--state-dir", follower.dir)...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, "Nothing was done") {
			t.Errorf("informd %s without a leader: %d, %s%s", strings.Join(args, " "), code, stdout, stderr)
		}
	}

	r.startAll()
	leader = r.awaitAll()
	for _, one := range r.replicas {
		if s := r.statusOf(one); s.Replica != leader.name || s.Rules[0].Paused {
			t.Errorf("%s: %+v", one.name, s)
		}
		if says := r.ask(one, "get", "configmaps"); !strings.Contains(says, "one") {
			t.Error(says)
		}
	}
	k.Create(harness.ConfigMap("two", `{a: b}`))
	r.poll("informd events -w to go on", func() bool {
		return strings.Contains(watched(), k.Ns+"/two")
	})
	for _, one := range r.replicas {
		one.daemon.Stop()
		r.examine(one)
	}
}
