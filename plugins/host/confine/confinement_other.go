//go:build !linux

package confine

import (
	"errors"
	"os"
)

// Confinement is what one process is confined to: on this system, nothing.
type Confinement struct{}

// Prepare is an error for all but the zero Spec, which gives nil.
func Prepare(s Spec, _ string, _ Own) (*Confinement, error) {
	if s.zero() {
		return nil, nil
	}
	return nil, &Error{"user, limits, sandbox", errors.New("they are supported on Linux only: leave them out, or run the daemon there")}
}

// Order is nil.
func (*Confinement) Order() *Order { return nil }

// Owner is nobody.
func (*Confinement) Owner() (uid, gid int, ok bool) { return 0, 0, false }

// Home is empty.
func (*Confinement) Home() string { return "" }

// Cgroup is nil.
func (*Confinement) Cgroup() *os.File { return nil }

// Kill does nothing.
func (*Confinement) Kill() error { return nil }

// Close does nothing.
func (*Confinement) Close() error { return nil }

// String is empty.
func (*Confinement) String() string { return "" }

// Enter is an error.
func (*Order) Enter() error { return errors.New("confinement is supported on Linux only") }
