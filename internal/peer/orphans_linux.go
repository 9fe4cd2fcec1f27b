package peer

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/internal/procfs"
)

// patience is how long a child may have ended before ReapOrphans reaps it. Whoever started a child
// of this process waits for it, and reaps it within moments. For an orphan nobody waits.
const patience = 5 * time.Second

// Adopt makes this process the parent of every process below it whose own parent ends. Otherwise a
// process that kills its parents becomes a child of init, and Descends cannot tell it from others.
// The caller runs ReapOrphans.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// ReapOrphans reaps adopted processes when they have ended, until ctx ends.
func ReapOrphans(ctx context.Context) {
	ended := make(chan os.Signal, 1) // one is enough: each look is at all children
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	var zombies zombies
	for {
		zombies = zombies.reap(time.Now())
		var again <-chan time.Time
		if len(zombies) > 0 {
			again = time.After(patience)
		}
		select {
		case <-ended:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// zombies are the children that have ended and that nobody has reaped, by number, with the time
// since when ReapOrphans knows it. The kernel bounds them: each counts as a process of its user.
type zombies map[int]time.Time

// reap reaps the children that have been zombies for patience, and returns those that are left.
func (z zombies) reap(now time.Time) (left zombies) {
	left = zombies{}
	for _, pid := range children() {
		if !hasEnded(pid) {
			continue
		}
		since, known := z[pid]
		switch {
		case !known:
			left[pid] = now
		case now.Sub(since) < patience:
			left[pid] = since
		default:
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
	return left
}

// hasEnded reports whether a child has ended. It does not reap it.
func hasEnded(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// children returns the children of this process. A kernel that has no lists of them makes it read
// all of /proc.
func children() []int {
	self := os.Getpid()
	pids, isListed := procfs.Children(self)
	if isListed {
		return pids
	}
	for _, p := range procfs.All() {
		if p.Parent == self {
			pids = append(pids, p.PID)
		}
	}
	return pids
}
