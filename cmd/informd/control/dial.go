package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/informd/informd/internal/peer"
)

const (
	dialTimeout = 5 * time.Second
	// dialPause is how long dial waits for room in the queue of those that connect. A process that
	// floods the socket leaves room for moments only.
	dialPause = time.Millisecond
)

// errStranger says that somebody else listens on the socket.
var errStranger = errors.New("another user listens there")

// dial connects to the control socket. It waits for room if more processes connect than informd can
// look at. It returns an error if the process that listens is not one that the caller trusts: it
// would get to know what is asked, and could answer anything.
func dial(ctx context.Context, socket string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", socket)
		if err == nil {
			if err := checkOwner(conn, socket); err != nil {
				return nil, err
			}
			return conn, nil
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return nil, err
		}
		select {
		case <-time.After(dialPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// checkOwner closes conn and returns an error if who listens is not trusted. Where it is not known who
// listens, the file's mode alone guards the socket.
func checkOwner(conn net.Conn, socket string) error {
	_, uid, err := peer.Of(conn.(*net.UnixConn))
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	folder := -1
	if info, err := os.Stat(filepath.Dir(socket)); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			folder = int(stat.Uid)
		}
	}
	switch {
	case err == nil && isTrusted(uid, os.Geteuid(), folder):
		return nil
	case err == nil:
		err = fmt.Errorf("%w: user %d listens on %s, where neither you nor root have an informd",
			errStranger, uid, socket)
	}
	_ = conn.Close()
	return err
}

// isTrusted reports whether a command of the user asks may talk to a process of the user listens. Root
// trusts the owner of the socket's folder, too.
func isTrusted(listens, asks, folder int) bool {
	return listens == asks || listens == 0 || asks == 0 && listens == folder
}
