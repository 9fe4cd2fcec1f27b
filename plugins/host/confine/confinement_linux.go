package confine

import (
	"errors"
	"os"
)

// Confinement is what one process is confined to. A nil one confines nothing; all methods work on it.
type Confinement struct {
	order *Order
	home  string
	text  string
}

// Prepare decides how s is enforced on this machine, for one process of the handler name. Nothing that was asked for is
// left out: what cannot be enforced here is an error that says why, and what to do. Who calls it calls Close in the end.
// A zero Spec gives nil.
func Prepare(s Spec, name string, own Own) (*Confinement, error) {
	if s.zero() {
		return nil, nil
	}
	return nil, errors.New("not yet")
}

// Order is what the process has to do to itself before it becomes the handler; nil: nothing.
func (c *Confinement) Order() *Order {
	if c == nil {
		return nil
	}
	return c.order
}

// Owner is the user that the process runs as, if that is another than the daemon's.
func (c *Confinement) Owner() (uid, gid int, ok bool) {
	if c == nil || c.order == nil || c.order.User == nil {
		return 0, 0, false
	}
	return c.order.User.UID, c.order.User.GID, true
}

// Home is the home directory of that user; empty if there is none, or the system does not know it.
func (c *Confinement) Home() string {
	if c == nil {
		return ""
	}
	return c.home
}

// Cgroup is the open cgroup to start the process in, as syscall.SysProcAttr.CgroupFD has it; nil: none. Close closes it.
func (c *Confinement) Cgroup() *os.File { return nil }

// Kill kills every process in the cgroup; without one it does nothing.
func (c *Confinement) Kill() error { return nil }

// Close removes the cgroup. Its processes must have ended; their last remains are waited for, a bounded time.
func (c *Confinement) Close() error { return nil }

// String says what is enforced by what; empty for nil.
func (c *Confinement) String() string {
	if c == nil {
		return ""
	}
	return c.text
}

// Enter applies the order to the calling process, which must then execute the handler: from the same goroutine, which
// stays locked to its thread, and at once.
func (o *Order) Enter() error { return nil }
