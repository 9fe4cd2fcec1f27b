package confine

import (
	"fmt"
	"os"
)

// Confinement is what one process is confined to. A nil one confines nothing; all methods work on it.
type Confinement struct {
	order Order
	home  string
	group *group // nil: none
	text  string
}

// Prepare decides how s is enforced on this machine, for one process of the handler name. Nothing that was asked for is
// left out: what cannot be enforced here is an *Error that says why, and what to do. The caller calls Close once the
// process is gone. A zero Spec gives nil. It is safe for concurrent use.
//
// Paths are taken up as they are when the process is launched: symbolic links are followed then, and a file that is
// replaced later, its name kept, is another one. A link that is in what may be written, and leads out of it, is an error of
// Enter.
func Prepare(s Spec, name string, own Own) (*Confinement, error) {
	if s.zero() {
		return nil, nil
	}
	return thisMachine().prepare(s, name, own)
}

// Order is what the process has to do to itself before it becomes the handler; nil: nothing.
func (c *Confinement) Order() *Order {
	if c == nil || c.order.User == nil && c.order.Rlimits == nil && c.order.Sandbox == nil {
		return nil
	}
	return &c.order
}

// Owner is the user that the process runs as, if one was asked for. What the process is to write has to be theirs.
func (c *Confinement) Owner() (uid, gid int, ok bool) {
	if c == nil || c.order.User == nil {
		return 0, 0, false
	}
	return c.order.User.UID, c.order.User.GID, true
}

// Home is the home directory of that user, which need not exist; empty if none was asked for, or the system knows none.
func (c *Confinement) Home() string {
	if c == nil {
		return ""
	}
	return c.home
}

// Cgroup is the open cgroup to start the process in (clone3's CLONE_INTO_CGROUP, syscall.SysProcAttr.CgroupFD); nil:
// none. Close closes it.
func (c *Confinement) Cgroup() *os.File {
	if c == nil || c.group == nil {
		return nil
	}
	return c.group.file
}

// Kill kills every process in the cgroup; without one it does nothing. It does not wait for their end.
func (c *Confinement) Kill() error {
	if c == nil || c.group == nil {
		return nil
	}
	return c.group.kill()
}

// OutOfMemory tells whether the kernel has killed processes of the cgroup because they came to limits.memory. Without a
// cgroup that is not known. It is asked before Close.
func (c *Confinement) OutOfMemory() bool {
	return c != nil && c.group != nil && c.group.outOfMemory()
}

// Close removes the cgroup, and those that were made in it. Its processes must have been killed; it waits up to
// removeTimeout for the last of them. Without a cgroup it does nothing.
func (c *Confinement) Close() error {
	if c == nil || c.group == nil {
		return nil
	}
	if err := c.group.close(); err != nil {
		return fmt.Errorf("remove a handler's cgroup: %w", err)
	}
	return nil
}

// String says, for people, what is enforced by what; empty for nil.
func (c *Confinement) String() string {
	if c == nil {
		return ""
	}
	return c.text
}
