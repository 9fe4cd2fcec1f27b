package exec

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes gives a command a process group of its own. It also makes the kernel kill the command
// when the handler's process is killed: informd will deliver the event again, and two commands must
// not work on one object at once.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits until a child has ended, and does not reap it. It returns nil.
func awaitEnd(p *os.Process) *os.ProcessState {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return nil
		}
	}
}
