//go:build !linux

package exec

import "syscall"

// attributes gives a command a process group of its own. Only Linux can kill it with its parent.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
