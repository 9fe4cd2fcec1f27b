// Package socket makes unix sockets that only their own user can connect to.
package socket

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// MaxPath is the length that the path of a unix socket may have, in bytes: 107 on Linux.
const MaxPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// Listen makes a socket at path with mode 0600, whatever the umask. It is an error if there is a
// file at path. Closing the listener does not remove the file: that is up to the caller.
func Listen(path string) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// Linux gives the file the mode of the descriptor, so nobody else can connect before the
		// Chmod below.
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
	}}
	listener, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	unix := listener.(*net.UnixListener)
	unix.SetUnlinkOnClose(false)
	if err := makePrivate(path); err != nil {
		_ = unix.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return unix, nil
}

// makePrivate gives a socket its mode, where the system has not done so. Chmod would follow a link
// that somebody has put in the place of the socket.
func makePrivate(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode() == fs.ModeSocket|0o600 {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is no socket any more: somebody has replaced it", path)
	}
	return os.Chmod(path, 0o600)
}
