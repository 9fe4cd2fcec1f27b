package shim

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// proc is a process as /proc shows it.
type proc struct {
	pid, parent int
	state       byte   // of its first thread
	threads     int    // threads that have not ended; the first one always counts
	born        string // start in ticks since boot; with the number, this identifies the process
}

// dead reports whether the process has ended. The end of its first thread is not enough: others may
// continue.
func (p proc) dead() bool { return bytes.IndexByte([]byte("ZXx"), p.state) >= 0 && p.threads <= 1 }

// still reports whether the whole process has ended or is stopped.
func (p proc) still() bool { return p.state == 'T' || p.dead() }

// waits reports whether the first thread does nothing until it gets a signal, because it waits for
// a device (D) or for its tracer (t). Other threads, and hidden processes, cannot be judged; a
// hidden one counts as waiting.
func (p proc) waits() bool { return p.state == 'D' || p.state == 't' || p.state == hidden }

// hidden is the state of a child that /proc does not show: mount options can hide processes of
// other users, and those that are not dumpable. A child keeps its number until it is reaped.
const hidden = '?'

// signal sends a signal to this process, and never to another one that got its number since.
func (p proc) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == unix.ENOSYS {
		_ = syscall.Kill(p.pid, sig)
		return
	}
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if now, ok := readProc(p.pid); p.state == hidden || ok && now.born == p.born {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// descendants returns the visible processes below root. It may miss one whose parent ends
// meanwhile; that one is among root's children the next time.
func descendants(root int) []proc {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	children := map[int][]proc{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	found := children[root]
	for i := 0; i < len(found); i++ {
		below := children[found[i].pid]
		delete(children, found[i].pid) // numbers may be reused during the read: this avoids circles
		found = append(found, below...)
	}
	for _, pid := range knownChildren(root) {
		if !slices.ContainsFunc(found, func(p proc) bool { return p.pid == pid }) {
			found = append(found, proc{pid: pid, parent: root, state: hidden})
		}
	}
	return found
}

// knownChildren returns the children that the kernel lists for a process, including hidden ones;
// none if the kernel has no such list.
func knownChildren(pid int) (pids []int) {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, list := range lists {
		b, _ := os.ReadFile(list) // a thread may have ended
		for _, field := range bytes.Fields(b) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func readProc(pid int) (proc, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	return parseStat(pid, b)
}

// parseStat parses what proc_pid_stat(5) describes. The program's name in it, in parentheses, may
// contain any bytes.
func parseStat(pid int, stat []byte) (proc, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return proc{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	threads, err2 := strconv.Atoi(string(fields[17]))
	p := proc{
		pid: pid, parent: parent, state: fields[0][0],
		threads: threads, born: string(fields[19]),
	}
	return p, err == nil && err2 == nil
}
