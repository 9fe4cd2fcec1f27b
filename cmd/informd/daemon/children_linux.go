package daemon

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

const (
	// restarts is how long client-go may take to run a plugin again after it was ended.
	restarts = 50 * time.Millisecond
	// mostRestarts bounds how often that is tried.
	mostRestarts = 100
)

// endChildren kills the processes that informd has started, and theirs. Nothing but a credential
// plugin that hangs is left when it is called: client-go cannot end one. For each request that waits
// for it, client-go runs it again.
func endChildren() {
	for range mostRestarts {
		all := descendants(os.Getpid())
		if len(all) == 0 {
			return
		}
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
		time.Sleep(restarts)
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

// parentOf reads the parent of a process that lives: the second field behind the name, which ends with the last
// bracket.
func parentOf(pid int) (parent int, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 || string(fields[0]) == "Z" { // dead, and nobody has asked how
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
