package peer

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/internal/procfs"
)

// A process whose parents are all killed stays a descendant, in whichever session it is, and is
// reaped when it ends.
func TestOrphansAreAdopted(t *testing.T) {
	if err := Adopt(); err != nil {
		t.Fatal(err)
	}
	pid, in := orphan(t)
	if p, err := procfs.Read(pid); err != nil || p.Parent != os.Getpid() {
		t.Errorf("the orphan's parent is %d, %v, want %d", p.Parent, err, os.Getpid())
	}
	if is, err := descendant(pid, os.Getpid()); err != nil || !is {
		t.Errorf("a descendant: %v, %v", is, err)
	}

	if err := in.Close(); err != nil { // which ends it
		t.Fatal(err)
	}
	awaitZombie(t, pid)
	began := time.Now()
	zombies := zombies{}.reap(began)
	if _, known := zombies[pid]; !known {
		t.Fatalf("%d is not among %v", pid, zombies)
	}
	zombies = zombies.reap(began.Add(patience - 1))
	if !hasEnded(pid) {
		t.Fatal("it was reaped though somebody may still wait for it")
	}
	zombies = zombies.reap(began.Add(patience))
	if _, known := zombies[pid]; known || hasEnded(pid) {
		t.Errorf("it is not reaped: %v", zombies)
	}
	if _, err := descendant(pid, os.Getpid()); !errors.Is(err, ErrGone) {
		t.Errorf("once it is reaped: %v", err)
	}
}

// orphan returns a process that a killed process left behind, and the pipe whose end ends it.
func orphan(t *testing.T) (pid int, in io.Closer) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `exec 3<&0; setsid sh -c 'echo $$; read -r _' <&3 & wait`)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = r
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return pid, w
}

func awaitZombie(t *testing.T, pid int) {
	t.Helper()
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

// A child that this process started stays for whoever waits for it.
func TestOwnChildrenAreLeft(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exit 7")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitZombie(t, cmd.Process.Pid)
	if !slices.Contains(children(), cmd.Process.Pid) {
		t.Errorf("%d is not among %v", cmd.Process.Pid, children())
	}
	zombies{}.reap(time.Now()).reap(time.Now())
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("it ended with %v", err)
	}
}

// A lineage in which a process has another parent by now proves nothing.
func TestLineageThatChanged(t *testing.T) {
	self, parent := os.Getpid(), os.Getppid()
	if line, end := lineage(self, parent); end != topEnd || !slices.Equal(line, []int{self, parent}) || !holds(line) {
		t.Errorf("%v, %v", line, end)
	}
	if holds([]int{self, parent + 1}) {
		t.Error("a process has the parent of another")
	}
}
