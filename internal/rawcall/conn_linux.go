package rawcall

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Conn is a connection over a socket. Except for the system calls it is the one that it wraps, with
// the same errors and deadlines.
type Conn struct {
	net.Conn
	raw syscall.RawConn
}

// Wrap returns a Conn over conn. ok is false if conn is no socket of package net.
func Wrap(conn net.Conn) (c *Conn, ok bool) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return nil, false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, false
	}
	return &Conn{conn, raw}, true
}

// SyscallConn implements [syscall.Conn].
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	var failed syscall.Errno
	err = c.raw.Read(func(fd uintptr) bool {
		n, failed = call(unix.SYS_READ, fd, p)
		return failed != unix.EAGAIN
	})
	if err = c.explain("read", err, failed); err == nil && n == 0 {
		err = io.EOF
	}
	return n, err
}

// ReadNow reads what is there, without waiting. It returns 0 if there is nothing, or an error, which
// the next Read returns.
func (c *Conn) ReadNow(p []byte) (n int) {
	if len(p) == 0 {
		return 0
	}
	_ = c.raw.Read(func(fd uintptr) bool {
		n, _ = call(unix.SYS_READ, fd, p)
		return true
	})
	return n
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (written int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	var failed syscall.Errno
	err = c.raw.Write(func(fd uintptr) bool {
		for written < len(p) {
			var n int
			if n, failed = call(unix.SYS_WRITE, fd, p[written:]); failed != 0 {
				return failed != unix.EAGAIN
			}
			written += n
		}
		return true
	})
	return written, c.explain("write", err, failed)
}

// WakeAt sets how many bytes must be there before the kernel says that a TCP socket can be read
// (SO_RCVLOWAT). It says at once that the connection has ended. If the kernel refuses that, WakeAt has
// no effect.
func (c *Conn) WakeAt(bytes int) {
	value := int32(bytes)
	_ = c.raw.Control(func(fd uintptr) {
		_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT,
			uintptr(unsafe.Pointer(&value)), unsafe.Sizeof(value), 0)
	})
}

// call reads into p, or writes it. p is not empty.
func call(which, fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, failed := unix.RawSyscall(which, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch failed {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, failed
		}
	}
}

// explain returns the error that package net would return. err is the poller's, failed the system
// call's.
func (c *Conn) explain(op string, err error, failed syscall.Errno) error {
	if e := new(net.OpError); errors.As(err, &e) {
		e.Op = op
		return e
	}
	if err == nil && failed != 0 {
		err = &net.OpError{
			Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(),
			Err: os.NewSyscallError(op, failed),
		}
	}
	return err
}
