//go:build linux

package host_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/serve"
)

func init() {
	modes["orphans"] = func() { serve.Main(&orphans{first: orphan()}) }
	modes["brood"] = func() { serve.Main(handler.Func(brood)) }
	modes["chains"] = func() {
		for range 20 {
			if err := exec.Command(os.Getenv("SCRIPT")).Start(); err != nil {
				panic(err)
			}
		}
		serve.Main(&echo{})
	}
}

// orphan starts a process that leaves the handler's group and session, and whose parent is gone.
func orphan() int {
	c := exec.Command("/bin/sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 & echo $!")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.Output()
	if err != nil {
		panic(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		panic(err)
	}
	return pid
}

type orphans struct{ first int }

func (o *orphans) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	if ev.Name == "exit" {
		os.Exit(3)
	}
	return handler.Answer{}, fmt.Errorf("%d", o.first)
}

// brood starts a hundred orphans, which end at once.
func brood(context.Context, handler.Event) (handler.Answer, error) {
	return handler.Answer{}, exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 100 ]; do true & i=$((i+1)); done").Run()
}

// However a process ends, everything that it started ends with it, even orphans in a session of
// their own.
func TestOrphans(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, h *host.Host, pid int){
		"killed":       func(t *testing.T, _ *host.Host, pid int) { kill(t, pid) },
		"crashed":      func(t *testing.T, h *host.Host, _ int) { _, _ = h.Handle(t.Context(), pod("exit")) },
		"wedged":       func(t *testing.T, _ *host.Host, pid int) { stop(t, pid) },
		"not wanted":   nil,
		"shim stopped": func(t *testing.T, h *host.Host, pid int) { stop(t, parentOf(pid)); kill(t, pid) },
		"child first":  func(t *testing.T, h *host.Host, pid int) { kill(t, fled(t, h)); kill(t, pid) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := host.New(spec("orphans"), host.Options{
				RunDir: shortDir(t), Backoff: host.Backoff{Min: time.Hour}, HealthInterval: 100 * time.Millisecond, HealthTimeout: time.Second,
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); _ = h.Run(ctx) }()
			defer func() { cancel(); <-ended }()
			ready(t, h)
			pid, child := h.Status().PID, fled(t, h)
			if parent := parentOf(child); parent != parentOf(pid) {
				t.Fatalf("the orphan went to process %d", parent)
			}
			if end == nil {
				cancel()
				<-ended
			} else {
				end(t, h, pid)
				waitFor(t, "the failure", func() bool { return h.Status().PID != pid })
			}
			waitFor(t, "the end of both", func() bool { return gone(pid) && gone(child) })
		})
	}
}

// fled returns the process id that the handler orphans reports.
func fled(t *testing.T, h *host.Host) int {
	t.Helper()
	_, err := h.Handle(t.Context(), pod("x"))
	child, convErr := strconv.Atoi(fmt.Sprint(err))
	if convErr != nil {
		t.Fatal(err)
	}
	return child
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// A daemon that is killed with -9 leaves nothing behind: no handlers that ignore signals, and no
// orphans of theirs.
func TestHostDies(t *testing.T) {
	t.Parallel()
	for _, child := range []string{"echo", "stubborn", "orphans"} {
		t.Run(child, func(t *testing.T) {
			dir := shortDir(t)
			c := exec.Command(os.Args[0])
			c.Env = []string{"MODE=host", "CHILD=" + child, "RUNDIR=" + dir, "TMPDIR=" + dir, "PATH=/usr/bin:/bin", race}
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			var pid int
			if _, err := fmt.Fscan(out, &pid); err != nil {
				t.Fatal(err)
			}
			all := descendants(c.Process.Pid)
			if !slices.Contains(all, pid) || child == "orphans" && len(all) != 3 { // with the shim
				t.Fatalf("of the handler %d, there are %v", pid, all)
			}
			_ = c.Process.Kill()
			_ = c.Wait()
			for _, pid := range all { // nothing else ends them
				waitFor(t, "the end of all", func() bool { return gone(pid) })
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// If the daemon and its shims are killed at the same moment, as by pkill -9 informd, no handler
// remains either.
func TestHostDiesWithShim(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	c := exec.Command(os.Args[0])
	c.Env = []string{"MODE=host", "CHILD=stubborn", "RUNDIR=" + dir, "TMPDIR=" + dir, "PATH=/usr/bin:/bin", race}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	stop(t, c.Process.Pid) // so that it cannot see to anything
	kill(t, parentOf(pid))
	_ = c.Process.Kill()
	_ = c.Wait()
	waitFor(t, "the handler's end", func() bool { return gone(pid) })
}

// A handler ends with its shim, and is started again.
func TestShimKilled(t *testing.T) {
	t.Parallel()
	log := &recorder{}
	h := start(t, spec("grandchild"), host.Options{Logger: log.logger(), Backoff: host.Backoff{Min: time.Millisecond}})
	ready(t, h)
	pid, child := h.Status().PID, fled(t, h)
	kill(t, parentOf(pid))
	waitFor(t, "the end of both", func() bool { return gone(pid) && gone(child) })
	waitFor(t, "another process", func() bool { s := h.Status(); return s.State == host.Running && s.PID != pid })
	if lines := log.lines(); !slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, "it was killed together with its supervisor")
	}) {
		t.Errorf("log: %q", lines)
	}
}

// Orphans that end do not remain as zombies.
func TestZombies(t *testing.T) {
	t.Parallel()
	h := start(t, spec("brood"), host.Options{})
	ready(t, h)
	pid := h.Status().PID
	shim := parentOf(pid)
	for range 3 {
		if _, err := h.Handle(t.Context(), pod("x")); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "one child", func() bool { return slices.Equal(descendants(shim), []int{pid}) })
}

// Signals to everything that informd started do not end a shim. It continues to reap orphans.
func TestShimSignalled(t *testing.T) {
	t.Parallel()
	h := start(t, spec("brood"), host.Options{})
	ready(t, h)
	pid := h.Status().PID
	shim := parentOf(pid)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGUSR1, syscall.SIGPIPE} {
		if err := syscall.Kill(shim, sig); err != nil {
			t.Fatalf("%v: %v", sig, err)
		}
	}
	if _, err := h.Handle(t.Context(), pod("x")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "one child", func() bool { return slices.Equal(descendants(shim), []int{pid}) })
	if s := h.Status(); s.PID != pid || s.Restarts != 0 {
		t.Errorf("%+v", s)
	}
}

// Processes that replace each other faster than anyone can look at them, each in a session of its
// own, are ended, too.
func TestChains(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "link")
	if err := writeProgram(script, []byte("#!/bin/sh\nsetsid \"$0\" </dev/null >/dev/null 2>&1 &\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := spec("chains")
	s.Env = append(s.Env, "SCRIPT="+script)
	log := &recorder{}
	h := start(t, s, host.Options{Logger: log.logger(), Backoff: host.Backoff{Min: time.Hour}})
	ready(t, h)
	waitFor(t, "a chain", func() bool { return len(having(script)) > 0 })
	kill(t, h.Status().PID)
	// The handler backs off at once. The time of its next start is known when its processes are gone.
	waitFor(t, "the end of all", func() bool { return !h.Status().Next.IsZero() })
	if left := having(script); len(left) > 0 {
		t.Errorf("left: %v; log: %q", left, log.lines())
	}
}

// ps shows the operator what a shim is.
func TestShimsName(t *testing.T) {
	t.Parallel()
	h := start(t, spec("echo"), host.Options{})
	ready(t, h)
	shim := parentOf(h.Status().PID)
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", shim))
	if err != nil || string(cmdline) != "informd-shim: echo\x00" {
		t.Errorf("got %q, %v", cmdline, err)
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", shim))
	if err != nil || string(comm) != "informd-shim\n" {
		t.Errorf("got %q, %v", comm, err)
	}
}

// having returns the processes that have an argument. It looks at nothing else of them: some live for
// less than a millisecond.
func having(arg string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if slices.Contains(strings.Split(string(cmdline), "\x00"), arg) {
			pids = append(pids, pid)
		}
	}
	return pids
}
