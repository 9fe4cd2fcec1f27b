// Package peer finds out which process is at the other end of a unix socket, whose it is, and whether
// it belongs to a handler. It works on Linux only.
package peer

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
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
		at := pid
		for at > 1 && at != ancestor {
			parent, ok := parentOf(at)
			if !ok && errors.Is(unix.Kill(at, 0), unix.EPERM) {
				// With hidepid, /proc hides other users' processes, but not the daemon's own.
				return false, nil
			}
			if !ok {
				break
			}
			if at = parent; at == ancestor {
				return true, nil
			}
		}
		if at <= 1 || at == ancestor {
			return false, nil // no process descends from itself
		}
		if at == pid {
			break
		}
	}
	return false, ErrGone
}

// parentOf reads /proc/PID/stat. The parent is the second field after the name, which is in
// parentheses and may contain parentheses.
func parentOf(pid int) (int, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
