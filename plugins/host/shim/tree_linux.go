package shim

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/internal/procfs"
)

// proc is a process as /proc shows it.
type proc struct{ procfs.Process }

// still reports whether the whole process has ended or is stopped.
func (p proc) still() bool { return p.State == 'T' || p.HasEnded() }

// waits reports whether the first thread does nothing until it gets a signal, because it waits for
// a device (D) or for its tracer (t). Other threads, and hidden processes, cannot be judged; a
// hidden one counts as waiting.
func (p proc) waits() bool { return p.State == 'D' || p.State == 't' || p.State == hidden }

// hidden is the state of a child that /proc does not show: mount options can hide processes of
// other users, and those that are not dumpable. A child keeps its number until it is reaped.
const hidden = '?'

// signal sends a signal to this process, and never to another one that got its number since.
func (p proc) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == unix.ENOSYS {
		_ = syscall.Kill(p.PID, sig)
		return
	}
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if now, err := procfs.Read(p.PID); p.State == hidden || err == nil && now.Born == p.Born {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// descendants returns the processes below root, also children that /proc hides. It may miss one
// whose parent ends meanwhile; that one is among root's children the next time.
func descendants(root int) (found []proc) {
	for _, p := range procfs.Below(root) {
		found = append(found, proc{p})
	}
	children, _ := procfs.Children(root)
	for _, pid := range children {
		if !slices.ContainsFunc(found, func(p proc) bool { return p.PID == pid }) {
			found = append(found, proc{procfs.Process{PID: pid, Parent: root, State: hidden}})
		}
	}
	return found
}
