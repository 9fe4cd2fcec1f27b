package exec

import "syscall"

// attributes gives a command a process group of its own. It also makes the kernel kill the command
// when the handler's process is killed: informd will deliver the event again, and two commands must
// not work on one object at once.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
