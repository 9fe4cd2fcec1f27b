//go:build !linux

package process

import (
	"context"
	"io/fs"
	"net"
	"os"
)

// dialSocket connects to a socket that a process made. The error is errNoSocket if the path is
// anything else.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return nil, errNoSocket
	}
	return new(net.Dialer).DialContext(ctx, "unix", path)
}
