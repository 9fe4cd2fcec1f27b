//go:build !linux

package control

import "net"

// descends has no portable form.
func descends(*net.UnixConn, int) (pid int, is bool, err error) { return 0, false, nil }
