package shim

import (
	"fmt"
	"maps"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killLimit is how long the end of processes is waited for that do not end. What sleeps in the kernel may take longer,
	// or for ever. As long as some end, or others appear, the shim goes on.
	killLimit = 5 * time.Second
	// freezeLimit is how long those that keep forking are chased, before what was found is killed.
	freezeLimit = 300 * time.Millisecond
	// pause is from one look at the processes to the next.
	pause = 2 * time.Millisecond
)

// killAll kills every descendant and returns how many could not be.
//
// The group, whose end is all there is to do mostly, is killed at once. Others are stopped first: those that start new
// processes as fast as they are killed, or watch over each other, cannot any more once all are.
func (s *supervisor) killAll() (left int) {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20) // among many that want the processors; only root may
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
		if now.Sub(began) > 5*pause { // time for the group to end
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
			_ = send(s.control, report{}) // the daemon, which would kill a shim that is stuck, sees that it is not
		}
		select {
		case <-s.children:
		case <-time.After(pause):
		}
	}
	return 0
}

// chase kills children for as long as others take their place at once: processes whose parents end are children of the
// shim, and a link of a chain of them lives for less time than a look at all processes takes. A child's number is its own
// until it is reaped.
func chase() {
	self := os.Getpid()
	killed := map[int]bool{}
	for began := time.Now(); time.Since(began) < pause; {
		found := false
		for _, pid := range knownChildren(self) {
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

// identities are the processes of a tree, whatever their states.
func identities(tree []proc) map[proc]bool {
	seen := make(map[proc]bool, len(tree))
	for _, p := range tree {
		seen[proc{pid: p.pid, born: p.born}] = true
	}
	return seen
}

// freeze stops every descendant, and returns those that it found last.
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

// killCgroup has the kernel kill what is in a cgroup, if it can (5.14 and later), and lifts the limit on its processor
// time: ending takes some, too.
func killCgroup(dir int) {
	write(dir, "cgroup.kill", "1")
	write(dir, "cpu.max", "max")
}

// write writes to a file of a cgroup, which may not have it.
func write(dir int, name, value string) {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, []byte(value))
	_ = unix.Close(fd)
}

func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
