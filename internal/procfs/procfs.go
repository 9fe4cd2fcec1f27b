// Package procfs reads what Linux says about processes in /proc: their states, their parents, and
// what they have used. Each shim imports it, so it imports only a few packages of the standard
// library. On other systems it finds no process.
package procfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Process is a process as /proc/PID/stat shows it. The numbers are those of the fields in
// proc_pid_stat(5).
type Process struct {
	PID         int           // 1
	State       byte          // 3, a letter: that of the first thread
	Parent      int           // 4; 0 if the parent is outside this PID namespace
	Terminal    int           // 7, a device's number; 0: it has no controlling terminal
	CPU         time.Duration // 14 and 15: in user and system mode
	ChildrenCPU time.Duration // 16 and 17: of children that were waited for, and theirs
	Threads     int           // 20: those that have not ended; the first one always counts
	Born        int64         // 22, in ticks since boot; with PID it identifies the process
	Resident    int           // 24, in bytes
}

// HasEnded reports whether the process has ended, and its parent has not waited for it yet. The end
// of its first thread is not enough: others may continue.
func (p Process) HasEnded() bool {
	return (p.State == 'Z' || p.State == 'X' || p.State == 'x') && p.Threads <= 1
}

// Read returns a process or thread. The error wraps fs.ErrNotExist or syscall.ESRCH if there is
// none, or if /proc hides it.
func Read(pid int) (Process, error) { return read(strconv.Itoa(pid)) }

// Self returns this process, under its number in the PID namespace that /proc was mounted in.
func Self() (Process, error) { return read("self") }

func read(name string) (Process, error) {
	text, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return Process{}, err
	}
	return parse(text)
}

// tick is the unit of processor time in /proc: USER_HZ is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// parse parses the text of /proc/PID/stat. The program's name in it, in parentheses, may hold
// anything, also parentheses, spaces and line breaks.
func parse(text []byte) (Process, error) {
	const state, last = 3, 24 // fields
	var n [last + 1]int64
	pid, rest, _ := bytes.Cut(text, []byte(" ("))
	var err error
	if n[1], err = strconv.ParseInt(string(pid), 10, 64); err != nil {
		return Process{}, errMalformed
	}
	field := state
	var letter byte
	for word := range bytes.FieldsSeq(rest[bytes.LastIndexByte(rest, ')')+1:]) {
		if field == state {
			letter = word[0]
		} else if n[field], err = strconv.ParseInt(string(word), 10, 64); err != nil {
			break
		}
		if field++; field > last {
			return Process{
				PID: int(n[1]), State: letter, Parent: int(n[4]), Terminal: int(n[7]),
				CPU: time.Duration(n[14]+n[15]) * tick, ChildrenCPU: time.Duration(n[16]+n[17]) * tick,
				Threads: int(n[20]), Born: n[22], Resident: int(n[24]) * os.Getpagesize(),
			}, nil
		}
	}
	return Process{}, errMalformed
}

var errMalformed = errors.New("/proc/PID/stat is not as proc_pid_stat(5) describes it")

// All returns the processes that /proc shows.
func All() (all []Process) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		if p, err := read(name); err == nil { // it may have ended
			all = append(all, p)
		}
	}
	return all
}

// Below returns the processes below root, parents first, also those that have ended and were not
// waited for. It may miss one whose parent ends meanwhile.
func Below(root int) []Process { return below(root, All()) }

func below(root int, all []Process) []Process {
	children := make(map[int][]Process)
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	found := children[root]
	delete(children, root)
	for i := 0; i < len(found); i++ {
		pid := found[i].PID
		found = append(found, children[pid]...)
		delete(children, pid) // numbers may be reused during the read: this avoids circles
	}
	return found
}

// Children returns the children that the kernel lists for a process, also those that /proc hides.
// isListed is false if the kernel has no such lists, or the process has ended.
func Children(pid int) (pids []int, isListed bool) {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for word := range bytes.FieldsSeq(text) {
			if child, err := strconv.Atoi(string(word)); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids, len(lists) > 0
}
