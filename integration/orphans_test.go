package integration

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// orphanLimit is how long anything may outlive a daemon that was killed.
const orphanLimit = 2 * time.Second

// A daemon that is killed leaves no process behind, whatever its handlers have started: in their group, in a session of
// its own, or orphaned; stopped; or in the middle of a command.
func TestKilledDaemonLeavesNothing(t *testing.T) {
	const variable = "TEST_MARK" // the exec builtin keeps those that begin with INFORMD_ to itself
	mark := strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	s := newStage(t, toldBy("family", "command: [./player, family], env: ["+variable+"]")+
		toldBy("frozen", "command: [./player, victim, freezes, ./tempting], env: ["+variable+"]")+
		toldBy("busy", "builtin: exec, env: [PATH, "+variable+"], concurrency: 2, timeout: 1h, config: {command: [/bin/sh, -c, 'sleep 86400 & setsid sleep 86400 & wait']}")+
		ruleFor("family", "source: widgets, handler: family")+ruleFor("frozen", "source: widgets, handler: frozen")+
		ruleFor("busy", "source: widgets, handler: busy"))
	s.informd = plainInformd(t) // the limit is not the race detector's
	s.open(t, nil, variable+"="+mark)
	s.awaitRunning("family", "frozen")
	s.tempt(true)
	s.stub.Update(stubWidgets, 1)
	s.poll("a handler to be stopped", func() bool {
		for _, pid := range s.playing("victim", "freezes") {
			if fields, err := processStat(pid); err == nil && fields[0] == "T" {
				return true
			}
		}
		return false
	})
	// The daemon; the family and its four; one that is frozen; and one with two commands, each a shell and two that sleep.
	const least = 1 + (1 + 4) + 1 + (1 + 2*3)
	s.poll("all to be there", func() bool { return len(marked(variable+"="+mark)) >= least })

	below := descendants(s.cmd.Process.Pid)
	s.kill()
	killed := time.Now()
	left := func() (left []int) {
		left = marked(variable + "=" + mark)
		for _, pid := range below {
			if fields, err := processStat(pid); err == nil && fields[0] != "Z" && !slices.Contains(left, pid) {
				left = append(left, pid)
			}
		}
		return left
	}
	for len(left()) > 0 && time.Since(killed) < orphanLimit {
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
