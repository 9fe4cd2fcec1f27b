package confine

import (
	"errors"
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

	"golang.org/x/sys/unix"
)

func run(t *testing.T, c *Confinement, name string) string {
	t.Helper()
	return output(t, command(t, c, []string{taskVar + "=" + name}, program))
}

func TestUser(t *testing.T) {
	c := prepare(t, Spec{User: "64999:64998"}, Own{})
	cmd := command(t, c, []string{taskVar + "=identity"}, program)
	cmd.SysProcAttr.Credential = &syscall.Credential{Groups: []uint32{4, 27}} // as a daemon of root's that is in other groups, too
	if got, want := output(t, cmd), "[64999 64999 64999] [64998 64998 64998] [] <nil>"; got != want {
		t.Errorf("it runs as %s, want %s", got, want)
	}
	if got := run(t, c, "pdeathsig"); got != "9" {
		t.Errorf("its parent-death signal is %s, want 9", got)
	}
	if got := run(t, prepare(t, Spec{User: "64999:64998", Sandbox: true}, Own{}), "pdeathsig"); got != "9" {
		t.Errorf("in a sandbox its parent-death signal is %s, want 9", got)
	}
}

// A daemon that is not root may have ambient capabilities. It keeps them from a sandbox.
func TestAmbientCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start another user's process with capabilities")
	}
	capabilities := func(c *Confinement) string {
		cmd := command(t, c, []string{taskVar + "=capabilities"}, program)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 64999, Gid: 64999}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_PTRACE}
		return output(t, cmd)
	}
	sandbox := prepare(t, Spec{Sandbox: true}, Own{})
	if got, want := capabilities(nil), fmt.Sprint(1<<unix.CAP_NET_BIND_SERVICE|1<<unix.CAP_SYS_PTRACE); got != want {
		t.Fatalf("without a sandbox it has %s, want %s", got, want)
	}
	if got := capabilities(sandbox); got != "0" {
		t.Errorf("in a sandbox it has %s", got)
	}
}

// A program that belongs to root and has the set-user-ID bit makes another user root again, unless
// that user is in a sandbox.
func TestSetUserID(t *testing.T) {
	c := prepare(t, Spec{User: "64999:64999"}, Own{})
	dir := folder(t)
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "program")
	if err := errors.Join(os.WriteFile(path, b, 0o755), os.Chmod(path, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	env := []string{taskVar + "=identity"}
	if got := output(t, command(t, c, env, path)); !strings.HasPrefix(got, "[64999 0 0]") {
		t.Skipf("set-user-ID has no effect in %s: %s", dir, got)
	}
	c = prepare(t, Spec{User: "64999:64999", Sandbox: true}, Own{Read: []string{dir}})
	if got := output(t, command(t, c, env, path)); !strings.HasPrefix(got, "[64999 64999 64999]") {
		t.Errorf("in a sandbox: %s", got)
	}
}

func TestFiles(t *testing.T) {
	lower := command(t, prepare(t, Spec{Limits: Limits{Files: 100}}, Own{}), []string{taskVar + "=files"}, program)
	lower.Path, lower.Args = "/bin/sh", []string{"sh", "-c", `ulimit -n 60; exec "$0"`, program}
	if got := output(t, lower); !strings.HasPrefix(got, "{60 60} ") {
		t.Errorf("where the daemon has fewer itself: %s", got)
	}
	if got := run(t, prepare(t, Spec{Limits: Limits{Files: 100}}, Own{}), "files"); got != "{100 100} true operation not permitted" && !strings.HasPrefix(got, "{100 100} true <nil>") {
		t.Errorf("files: %s", got)
	}
	got := run(t, prepare(t, Spec{Sandbox: true, Limits: Limits{Files: 100}}, Own{}), "files")
	if got != "{100 100} true operation not permitted" {
		t.Errorf("files in a sandbox, where root cannot raise them either: %s", got)
	}
}

// TestProcesses starts processes without end.
func TestProcesses(t *testing.T) {
	c := prepare(t, Spec{User: "64997:64997", Limits: Limits{Processes: 64}}, Own{})
	t.Log(c)
	n, err := strconv.Atoi(run(t, c, "forks"))
	if err != nil || n < 20 || n >= 64 {
		t.Errorf("it started %d processes; want some, but fewer than 64: %v", n, err)
	}
	if got := run(t, prepare(t, Spec{User: "64997:64997"}, Own{}), "forks"); got != "200" {
		t.Errorf("without a limit it started %s processes, want all 200", got)
	}
}

// TestGroup starts processes without end, and computes without end, where the daemon may bound that
// without a user.
func TestGroup(t *testing.T) {
	c, err := Prepare(Spec{Limits: Limits{CPU: 100, Processes: 64}}, "test", Own{})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Kill(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	if got, want := c.String(), "cpu, processes by cgroup v2"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	n, err := strconv.Atoi(run(t, c, "forks"))
	if err != nil || n < 20 || n >= 64 {
		t.Errorf("it started %d processes; want some, but fewer than 64: %v", n, err)
	}
	cmd := command(t, c, nil, "/bin/sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	throttled := func() bool {
		stat, err := words(filepath.Join(c.group.dir, "cpu.stat"))
		i := slices.Index(stat, "nr_throttled")
		return err == nil && i >= 0 && stat[i+1] != "0"
	}
	for deadline := time.Now().Add(20 * time.Second); !throttled(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was never held back")
		}
	}
	if err := c.Kill(); err != nil {
		t.Error(err)
	}
	if limit, err := words(filepath.Join(c.group.dir, "cpu.max")); err != nil || limit[0] != "max" {
		t.Errorf("%v, %v: it is held back while it dies", limit, err)
	}
	_ = cmd.Wait()
}

// TestMemory allocates more than is allowed.
func TestMemory(t *testing.T) {
	c := prepare(t, Spec{Limits: Limits{Memory: 64 << 20}}, Own{})
	t.Log(c)
	dd := func(c *Confinement, bytes string) error {
		return command(t, c, nil, "/bin/dd", "if=/dev/zero", "of=/dev/null", "count=1", "bs="+bytes).Run()
	}
	if err := dd(c, "1M"); err != nil {
		t.Errorf("1 MiB: %v", err)
	}
	var exit *exec.ExitError
	if err := dd(c, "256M"); !errors.As(err, &exit) {
		t.Errorf("256 MiB: %v, want a failure", err)
	}
	if err := dd(nil, "256M"); err != nil {
		t.Errorf("256 MiB without a limit: %v", err)
	}
}
