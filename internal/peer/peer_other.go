//go:build !linux

// Package peer finds out which process is at the other end of a unix socket, whose it is, and
// whether it belongs to a handler. A process stays a descendant of the daemon, whichever processes
// between them end: the daemon adopts orphans. The package works on Linux only.
package peer

import (
	"context"
	"errors"
	"net"
)

// Descends reports false: there is no portable way to know.
func Descends(*net.UnixConn, int) (pid int, is bool, err error) { return 0, false, nil }

// Adopt does nothing: there is no portable way.
func Adopt() error { return nil }

// ReapOrphans does nothing: Adopt adopts no process.
func ReapOrphans(context.Context) {}

// Of returns an error: there is no portable way to know.
func Of(*net.UnixConn) (pid, uid int, err error) { return 0, 0, errors.ErrUnsupported }
