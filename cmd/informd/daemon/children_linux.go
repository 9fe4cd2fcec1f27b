package daemon

import (
	"os"
	"syscall"
	"time"

	"github.com/informd/informd/internal/procfs"
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

// descendants returns the living processes below one, parents first.
func descendants(of int) (all []int) {
	for _, p := range procfs.Below(of) {
		if !p.HasEnded() {
			all = append(all, p.PID)
		}
	}
	return all
}
