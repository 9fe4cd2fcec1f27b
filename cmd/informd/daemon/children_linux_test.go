package daemon

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/internal/procfs"
)

// endsFirstThread is the variable that makes this test's program end its first thread and continue.
const endsFirstThread = "INFORMD_TEST_ENDS_FIRST_THREAD"

func init() {
	if os.Getenv(endsFirstThread) == "" {
		return
	}
	runtime.LockOSThread() // init runs on the first thread
	go func() {
		time.Sleep(time.Minute)
		os.Exit(0)
	}()
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}

// A process continues without its first thread, although /proc shows a zombie's state for it.
func TestDescendantWithoutFirstThread(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), endsFirstThread+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if p, err := procfs.Read(cmd.Process.Pid); err == nil && p.State == 'Z' {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("its first thread does not end")
		}
	}
	if all := descendants(os.Getpid()); !slices.Contains(all, cmd.Process.Pid) {
		t.Errorf("%d is not in %v", cmd.Process.Pid, all)
	}
}

// A process that informd has started is found with those below it, and not when it is dead.
func TestDescendants(t *testing.T) {
	t.Parallel()
	shell := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	below, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	all := descendants(os.Getpid())
	if parent, child := slices.Index(all, shell.Process.Pid), slices.Index(all, below); parent < 0 || child < parent {
		t.Errorf("%d and below it %d are not both in %v, in this order", shell.Process.Pid, below, all)
	}
	for _, pid := range []int{below, shell.Process.Pid} {
		p, _ := os.FindProcess(pid)
		_ = p.Kill()
	}
	deadline := time.Now().Add(time.Minute)
	for slices.Contains(descendants(os.Getpid()), shell.Process.Pid) { // a zombie does not count
		if time.Now().After(deadline) {
			t.Fatal("a dead process is found")
		}
		time.Sleep(time.Millisecond)
	}
	_ = shell.Wait()
}
