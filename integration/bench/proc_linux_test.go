package main

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestUsedCountsDescendants(t *testing.T) {
	self := os.Getpid()
	alone, err := used(self)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(alone.pids, []int{self}) || alone.rss < 1000 || alone.peak < alone.rss {
		t.Errorf("alone: %+v", alone)
	}
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait() // killed
	}()
	both, err := used(self)
	if err != nil {
		t.Fatal(err)
	}
	if len(both.pids) != 2 || !slices.Contains(both.pids, child.Process.Pid) {
		t.Errorf("processes %v; want %d and %d", both.pids, self, child.Process.Pid)
	}

	// Ended and not waited for: it counts no more, and has nothing of its own to be read.
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, child.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if after, err := used(self); err != nil || !slices.Equal(after.pids, []int{self}) {
		t.Errorf("after the child's end: %+v, %v", after, err)
	}
	if got, err := used(child.Process.Pid); err == nil {
		t.Errorf("of a process that has ended: %+v; want an error", got)
	}
}

// Once waited for, a child's CPU is its parent's: that of a process per event.
func TestUsedCountsEndedChildren(t *testing.T) {
	before, err := used(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	after, err := used(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after.cpu-before.cpu < 50*time.Millisecond {
		t.Errorf("a loop of 300,000 rounds in a shell took %v", after.cpu-before.cpu)
	}
}
