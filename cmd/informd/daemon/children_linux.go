package daemon

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// endChildren kills the processes that informd has started, and theirs. Nothing but a credential
// plugin that hangs is left when it is called: client-go cannot end one.
func endChildren() {
	for _, pid := range descendants(os.Getpid()) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
	}
}

// descendants returns the processes below one, parents first.
func descendants(of int) (all []int) {
	children := make(map[int][]int)
	entries, _ := os.ReadDir("/proc") // without it, nothing is found
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, ok := parentOf(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	all = children[of]
	for n := 0; n < len(all); n++ {
		all = append(all, children[all[n]]...)
	}
	return all
}

// parentOf reads the parent of a process: the second field behind the name, which ends with the last
// bracket.
func parentOf(pid int) (parent int, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
