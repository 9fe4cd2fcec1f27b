// Package peer finds out which process is at the other end of a unix socket, whose it is, and
// whether it belongs to a handler. A process stays a descendant of the daemon, whichever processes
// between them end: the daemon adopts orphans. The package works on Linux only.
package peer

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/internal/procfs"
)

// Descends reports whether the process that connected to conn is a descendant of the process
// ancestor, at whatever distance. It returns an error if the process has ended, because it may have
// been one.
func Descends(conn *net.UnixConn, ancestor int) (pid int, is bool, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	var peer *unix.Ucred
	var unknown, gone error
	var handle int
	if err = raw.Control(func(fd uintptr) {
		peer, unknown = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		// SO_PEERPIDFD exists since Linux 6.5.
		handle, gone = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	}); err != nil {
		return 0, false, err
	}
	if gone == nil {
		defer func() { _ = unix.Close(handle) }()
	}
	if unknown != nil {
		return 0, false, fmt.Errorf("who asks is not known: %w", unknown)
	}
	pid = int(peer.Pid)
	if is, err = descendant(pid, ancestor); err != nil {
		return pid, false, err
	}
	if gone == nil {
		gone = unix.PidfdSendSignal(handle, 0, nil, 0)
	}
	if errors.Is(gone, unix.ESRCH) { // its number may be another's by now
		return pid, false, ErrGone
	}
	return pid, is, nil
}

// Of returns the number of the process at the other end of conn, and its user's. For a client that is
// whoever listens.
func Of(conn *net.UnixConn) (pid, uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var peer *unix.Ucred
	var unknown error
	err = raw.Control(func(fd uintptr) {
		peer, unknown = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = unknown
	}
	if err != nil {
		return 0, 0, err
	}
	return int(peer.Pid), int(peer.Uid), nil
}

// ErrGone says that the process has ended, so nobody knows whose it was.
var ErrGone = errors.New("the process that asks is gone")

// descendant follows the parents of a process. A process in a PID namespace above this one has the
// number 0, and so has the parent of a process that came in from there. A descendant cannot get
// there.
func descendant(pid, ancestor int) (bool, error) {
	const tries = 5 // a parent may end between two steps, and another takes its place
	for range tries {
		line, end := lineage(pid, ancestor)
		switch {
		case end == hiddenEnd && holds(line):
			return false, nil
		case end == topEnd && holds(line):
			return line[len(line)-1] == ancestor && len(line) > 1, nil
		case end == goneEnd && len(line) == 1:
			return false, ErrGone
		}
	}
	return false, ErrGone
}

// end says why a lineage has no further parent.
type end int

const (
	topEnd    end = iota // the last one is the ancestor, or has no parent
	hiddenEnd            // with hidepid, /proc hides other users' processes, but not the daemon's own
	goneEnd              // the last one has ended
)

// lineage returns a process, its parent, its parent's parent and so on, up to ancestor.
func lineage(pid, ancestor int) ([]int, end) {
	line := []int{pid}
	for at := pid; at > 1 && at != ancestor; {
		p, err := procfs.Read(at)
		switch {
		case err != nil && errors.Is(unix.Kill(at, 0), unix.EPERM):
			return line, hiddenEnd
		case err != nil:
			return line, goneEnd
		}
		at = p.Parent
		line = append(line, at)
	}
	return line, topEnd
}

// holds reports whether each process of a lineage still has its parent. It begins at the top. So
// whoever has its parent had it all the time, and no number belonged to another process meanwhile.
func holds(line []int) bool {
	for i := len(line) - 2; i >= 0; i-- {
		if p, err := procfs.Read(line[i]); err != nil || p.Parent != line[i+1] {
			return false
		}
	}
	return true
}
