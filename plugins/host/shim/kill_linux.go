package shim

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killLimit is how long the end of everything is tried. What sleeps in the kernel may take longer, or for ever.
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
	if s.order.Cgroup {
		killCgroup(s.cgroup())
	}
	if s.handler != 0 {
		_ = syscall.Kill(-s.handler, syscall.SIGKILL)
	}
	began := time.Now()
	for s.reap() {
		if waited := time.Since(began); waited > killLimit {
			return len(descendants(os.Getpid()))
		} else if waited > 5*pause { // time for the group to end
			for _, p := range freeze() {
				p.signal(syscall.SIGKILL)
			}
		}
		select {
		case <-s.children:
		case <-time.After(pause):
		}
	}
	return 0
}

// freeze stops every descendant, and returns those that it found last.
func freeze() []proc {
	began := time.Now()
	for {
		moving := false
		tree := descendants(os.Getpid())
		for _, p := range tree {
			if !p.still() {
				moving = true
				p.signal(syscall.SIGSTOP)
			}
		}
		if !moving || time.Since(began) > freezeLimit {
			return tree
		}
		time.Sleep(pause)
	}
}

// killCgroup has the kernel kill what is in a cgroup, if it can (5.14 and later).
func killCgroup(dir int) {
	fd, err := unix.Openat(dir, "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, []byte("1"))
	_ = unix.Close(fd)
}

func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
