//go:build !linux

package host

import (
	"context"
	"io/fs"
	"net"
	"os"
)

// dialSocket connects to a socket that a process made. What is there in its place is errNoSocket.
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
