package exec

import "syscall"

// attributes gives a command a process group of its own, and has the kernel kill it when the handler's process is
// killed: its event will be delivered again, and two commands must not work on one object at once.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
