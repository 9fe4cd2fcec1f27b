package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// processAttributes give the process a group of its own, away from the terminal's signals, and let the kernel kill it
// when the daemon dies.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// executeFile has cmd execute an open file. The process inherits the descriptor: a script's interpreter opens it by
// the same name.
func executeFile(cmd *exec.Cmd, file *os.File) error {
	cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	cmd.Path = fmt.Sprintf("/proc/self/fd/%d", 2+len(cmd.ExtraFiles))
	return nil
}

// reap waits for the process to end and kills what is left of its group, before anybody else can get its number.
func (p *process) reap(cmd *exec.Cmd) {
	for errors.Is(unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = cmd.Wait() // returns at once; the state says it all
	p.ended(cmd.ProcessState)
}
