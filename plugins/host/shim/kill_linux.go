package shim

import (
	"fmt"
	"maps"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/internal/procfs"
)

const (
	// killLimit is how long the shim waits for processes that do not end. A process that sleeps in
	// the kernel may never end. As long as some end, or others appear, the shim continues.
	killLimit = 5 * time.Second
	// freezeLimit is how long freeze chases processes that keep forking.
	freezeLimit = 300 * time.Millisecond
	// pause is the time between two looks at the processes.
	pause = 2 * time.Millisecond
)

// killAll kills every descendant and returns how many it could not kill.
//
// It kills the handler's process group at once, which mostly is all. It stops the others before it
// kills them: processes that start new ones as fast as they are killed, or that restart each other,
// cannot do so once all of them are stopped.
func (s *supervisor) killAll() (left int) {
	// To get a processor among many busy processes. Only root may.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
	if s.order.Cgroup {
		killCgroup(s.cgroup())
	}
	if s.handler != 0 {
		_ = syscall.Kill(-s.handler, syscall.SIGKILL)
	}
	began := time.Now()
	progress, told := began, began
	before, reaped := map[proc]bool{}, s.reaped
	for s.reap() {
		chase()
		now := time.Now()
		if s.reaped != reaped {
			reaped, progress = s.reaped, now
		}
		if now.Sub(began) > 5*pause { // the group has had time to end
			tree := freeze()
			for _, p := range tree {
				p.signal(syscall.SIGKILL)
			}
			if seen := identities(tree); !maps.Equal(seen, before) {
				before, progress = seen, now
			}
		}
		if now.Sub(progress) > killLimit {
			return max(1, len(before))
		}
		if now.Sub(told) > time.Second {
			told = now
			_ = send(s.control, report{}) // shows the daemon that the shim is not stuck
		}
		select {
		case <-s.children:
		case <-time.After(pause):
		}
	}
	return 0
}

// chase kills children as long as new ones take their place at once. An orphan becomes a child of
// the shim, and each process of a chain of forks lives for less time than a look at all processes
// takes. A child keeps its number until it is reaped, so the signal reaches no other process.
func chase() {
	self := os.Getpid()
	killed := map[int]bool{}
	for began := time.Now(); time.Since(began) < pause; {
		found := false
		children, _ := procfs.Children(self)
		for _, pid := range children {
			if !killed[pid] {
				killed[pid], found = true, true
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if !found {
			return
		}
	}
}

// identities returns the processes of a tree without their states.
func identities(tree []proc) map[proc]bool {
	seen := make(map[proc]bool, len(tree))
	for _, p := range tree {
		seen[proc{procfs.Process{PID: p.PID, Born: p.Born}}] = true
	}
	return seen
}

// freeze stops every descendant, and returns those that it found in the last look.
func freeze() []proc {
	began := time.Now()
	for {
		moving := false
		tree := descendants(os.Getpid())
		for _, p := range tree {
			if !p.still() {
				moving = moving || !p.waits()
				p.signal(syscall.SIGSTOP)
			}
		}
		if !moving || time.Since(began) > freezeLimit {
			return tree
		}
		time.Sleep(pause)
	}
}

// killCgroup makes the kernel kill everything in a cgroup, if it can (Linux 5.14 and later), and
// lifts the limit on processor time: processes need some to end.
func killCgroup(dir int) {
	write(dir, "cgroup.kill", "1")
	write(dir, "cpu.max", "max")
}

// write writes to a file of a cgroup, if it has that file.
func write(dir int, name, value string) {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, []byte(value))
	_ = unix.Close(fd)
}

func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
