package confine

import (
	"fmt"
	"os"
)

// Confinement is what one process is confined to. A nil Confinement is legal and confines nothing.
type Confinement struct {
	order Order
	home  string
	group *group // nil: none
	text  string
}

// Prepare decides how s is enforced on this machine, for one process of the handler name. It leaves
// out no demand: what cannot be enforced here is an *Error that says why, and what to do. The
// caller calls Close once the process is gone. The zero Spec gives nil. Prepare may be called
// concurrently.
//
// Paths are resolved when the process is launched. Symbolic links are followed then. A file that
// replaces another one later, under the same name, is not covered. If a link in a writable folder
// leads outside the writable paths, Enter returns an error.
func Prepare(s Spec, name string, own Own) (*Confinement, error) {
	if s.zero() {
		return nil, nil
	}
	return thisMachine().prepare(s, name, own)
}

// Order returns what the process applies to itself before it becomes the handler; nil: nothing.
func (c *Confinement) Order() *Order {
	if c == nil || c.order.User == nil && c.order.Rlimits == nil && c.order.Sandbox == nil {
		return nil
	}
	return &c.order
}

// Owner returns the user that the process runs as, if the Spec names one. That user must own what
// the process is to write.
func (c *Confinement) Owner() (uid, gid int, ok bool) {
	if c == nil || c.order.User == nil {
		return 0, 0, false
	}
	return c.order.User.UID, c.order.User.GID, true
}

// Home returns the home directory of that user, which need not exist; empty if the Spec names no
// user, or the system knows no home.
func (c *Confinement) Home() string {
	if c == nil {
		return ""
	}
	return c.home
}

// Cgroup returns the open cgroup to start the process in (syscall.SysProcAttr.CgroupFD); nil: there
// is none. Close closes it.
func (c *Confinement) Cgroup() *os.File {
	if c == nil || c.group == nil {
		return nil
	}
	return c.group.file
}

// Kill kills every process in the cgroup, and does not wait for their end. Without a cgroup it does
// nothing.
func (c *Confinement) Kill() error {
	if c == nil || c.group == nil {
		return nil
	}
	return c.group.kill()
}

// OutOfMemory reports whether the kernel killed processes of the cgroup because they reached
// limits.memory. Without a cgroup that is unknown, and it returns false. It must be called before
// Close.
func (c *Confinement) OutOfMemory() bool {
	return c != nil && c.group != nil && c.group.outOfMemory()
}

// Close removes the cgroup and those below it. Its processes must have been killed; Close waits up
// to removeTimeout for their end. Without a cgroup it does nothing.
func (c *Confinement) Close() error {
	if c == nil || c.group == nil {
		return nil
	}
	if err := c.group.close(); err != nil {
		return fmt.Errorf("remove a handler's cgroup: %w", err)
	}
	return nil
}

// String says, for people, what is enforced and how; empty for nil.
func (c *Confinement) String() string {
	if c == nil {
		return ""
	}
	return c.text
}
