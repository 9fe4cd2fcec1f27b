package e2e

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/informd/informd/integration/harness"
)

// A killed daemon leaves no process behind, whatever its handlers have started: children in their
// group or in sessions of their own, orphans, stopped processes, and running commands.
func TestKilledDaemonLeavesNothing(t *testing.T) {
	t.Parallel()
	const variable = "TEST_MARK" // without INFORMD_: the exec builtin passes no such variable on
	mark := strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	s := harness.NewStage(t, harness.Handler("family", "command: [./player, family], env: ["+variable+"]")+
		harness.Handler("frozen", "command: [./player, victim, freezes, ./tempting], env: ["+variable+"]")+
		harness.Handler("busy", "builtin: exec, env: [PATH, "+variable+"], concurrency: 2, timeout: 1h, config: {command: [/bin/sh, -c, 'sleep 86400 & setsid sleep 86400 & wait']}")+
		harness.Rule("family", "source: widgets, handler: family")+harness.Rule("frozen", "source: widgets, handler: frozen")+
		harness.Rule("busy", "source: widgets, handler: busy"))
	s.Informd = harness.Binary
	s.Open(t, nil, variable+"="+mark)
	s.AwaitRunning("family", "frozen")
	s.Tempt(true)
	s.Stub.Update(harness.WidgetResource, 1)
	s.Poll("a handler to be stopped", func() bool {
		return slices.ContainsFunc(s.Playing("victim", "freezes"), harness.IsStopped)
	})
	// The daemon; the family and its four; the frozen one; and the busy one with two commands, each
	// a shell and two sleeps.
	const least = 1 + (1 + 4) + 1 + (1 + 2*3)
	s.Poll("all to be there", func() bool { return len(harness.Marked(variable+"="+mark)) >= least })

	below := harness.Descendants(s.Cmd.Process.Pid)
	s.Kill()
	killed := time.Now()
	left := func() (left []int) {
		left = harness.Marked(variable + "=" + mark)
		for _, pid := range below {
			if !harness.HasEnded(pid) && !slices.Contains(left, pid) {
				left = append(left, pid)
			}
		}
		return left
	}
	for len(left()) > 0 && time.Since(killed) < harness.Patience {
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(killed)
	for _, pid := range left() {
		command, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		t.Errorf("%d is left %v after the daemon was killed: %q", pid, took, command)
		if process, err := os.FindProcess(pid); err == nil {
			_ = process.Kill()
		}
	}
	t.Logf("all %d gone %v after the daemon", len(below), took.Round(time.Millisecond))
}
