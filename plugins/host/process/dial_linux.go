package process

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// dialSocket connects to a socket that a process made. The error is errNoSocket if the path is
// anything else, above all a link to another socket, even if it was put there a moment ago.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open its socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("open its socket: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, errNoSocket
	}
	return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
}
