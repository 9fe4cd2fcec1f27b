//go:build !linux

package confine

import (
	"errors"
	"os"
)

// Confinement is what one process is confined to. On this system it is always nil.
type Confinement struct{}

// Prepare returns nil for the zero Spec, and an error for any other.
func Prepare(s Spec, _ string, _ Own) (*Confinement, error) {
	if s.zero() {
		return nil, nil
	}
	return nil, &Error{"user, limits, sandbox",
		errors.New("they are supported on Linux only: leave them out, or run the daemon there")}
}

// Order returns nil.
func (*Confinement) Order() *Order { return nil }

// Owner returns false.
func (*Confinement) Owner() (uid, gid int, ok bool) { return 0, 0, false }

// Home returns "".
func (*Confinement) Home() string { return "" }

// Cgroup returns nil.
func (*Confinement) Cgroup() *os.File { return nil }

// Kill does nothing.
func (*Confinement) Kill() error { return nil }

// Close does nothing.
func (*Confinement) Close() error { return nil }

// String returns "".
func (*Confinement) String() string { return "" }

// Enter returns an error.
func (*Order) Enter() error { return errors.New("confinement is supported on Linux only") }
