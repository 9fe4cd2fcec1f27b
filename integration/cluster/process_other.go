//go:build unix && !linux

package cluster

import "syscall"

// Without Linux's parent death signal a control plane outlives a test binary that is killed.
func ownGroupDyingWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
