//go:build !linux

package exec

import (
	"os"
	"syscall"
)

// attributes gives a command a process group of its own. Only Linux can kill it with its parent.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd waits until a child has ended, and returns how. It reaps the child: only on Linux does
// the last signal come before that.
func awaitEnd(p *os.Process) *os.ProcessState {
	state, _ := p.Wait()
	return state
}
