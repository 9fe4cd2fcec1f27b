//go:build unix && !linux

package host

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// processAttributes give the process a group of its own. That it ends with the daemon is left to its standard input.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func executeFile(*exec.Cmd, *os.File) error {
	return errors.New("sha256 is supported on Linux only, where the file that was digested can be executed itself")
}

// reap waits for the process to end, and kills what is left of its group. There is no portable way to do that in the
// safe order.
func (p *process) reap(cmd *exec.Cmd) {
	_ = cmd.Wait() // the state says it all
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended(cmd.ProcessState)
}
