package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/informd/informd/internal/socket"
)

// maxConnections bounds how many connections the server answers at a time. Further ones wait.
const maxConnections = 32

// listener is the control socket. It accepts maxConnections at a time, from processes that the door
// admits.
type listener struct {
	*net.UnixListener
	path   string
	file   fs.FileInfo   // of the socket
	places chan struct{} // one taken per connection; capacity maxConnections
	closed chan struct{}
	close  func() error
	door   *door
}

// listen makes the socket. It replaces one that a dead daemon left. If a process listens on it,
// that is an error.
func listen(path string, door *door) (*listener, error) {
	// Absolute also because "@name" would be an abstract socket, which has no mode.
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if len(path) > socket.MaxPath {
		return nil, fmt.Errorf("control socket: the path %s is longer than the %d bytes "+
			"that a socket may have: give a shorter one with --control SOCKET",
			path, socket.MaxPath)
	}
	if err := vacate(path); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	inner, err := socket.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l := &listener{
		UnixListener: inner, path: path,
		places: make(chan struct{}, maxConnections), closed: make(chan struct{}), door: door,
	}
	l.close = sync.OnceValue(l.end)
	if l.file, err = os.Lstat(path); err != nil {
		_ = os.Remove(path)
		_ = l.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return l, nil
}

// vacate removes a socket that nobody listens on. Two daemons that do so at the same moment could
// remove each other's socket. In a state directory that cannot happen: one of them holds its lock.
func vacate(path string) error {
	before, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case before.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf(
			"%s is not a socket: remove it, or give another path with --control SOCKET", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf(
				"%s belongs to another user: give another path with --control SOCKET", path)
		}
		return fmt.Errorf("another informd listens on %s: "+
			"end it, or give this one another path with --control SOCKET", path)
	}
	if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
		return fmt.Errorf("another informd is starting on %s: "+
			"give this one another path with --control SOCKET", path)
	}
	return os.Remove(path)
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.AcceptUnix()
	for err == nil && !l.door.admits(conn) {
		conn, err = l.AcceptUnix()
	}
	if err != nil {
		<-l.places
		return nil, err
	}
	return &connection{Conn: conn, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

// Close implements net.Listener. It removes the socket, unless another daemon has replaced it.
func (l *listener) Close() error { return l.close() }

func (l *listener) end() error {
	close(l.closed)
	if now, err := os.Lstat(l.path); err == nil && l.file != nil && os.SameFile(now, l.file) {
		_ = os.Remove(l.path) // the directory may be gone
	}
	err := l.UnixListener.Close()
	l.door.close()
	return err
}

// connection releases its place when it is closed.
type connection struct {
	net.Conn
	leave func()
}

func (c *connection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
