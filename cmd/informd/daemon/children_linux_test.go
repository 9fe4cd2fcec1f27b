package daemon

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

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
