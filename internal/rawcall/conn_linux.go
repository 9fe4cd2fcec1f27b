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

// Conn is a connection whose Read and Write are raw. Deadlines and errors are those of package net.
// It does not have what the connection has beyond net.Conn and syscall.Conn, such as CloseWrite.
type Conn struct {
	net.Conn
	raw syscall.RawConn
}

// Wrap returns a Conn over conn. ok is false if conn is no TCP or unix connection of package net.
func Wrap(conn net.Conn) (c *Conn, ok bool) {
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
	default: // its own Read and Write may do more
		return nil, false
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
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
		return c.Conn.Read(p)
	}
	var failed syscall.Errno
	err = c.raw.Read(func(fd uintptr) bool {
		n, failed = receive(fd, p)
		return failed != unix.EAGAIN
	})
	if err != nil || failed != 0 {
		return 0, c.explain("read", err, failed)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// ReadAnnounced is a Read that announces its system call, as that of package net.
func (c *Conn) ReadAnnounced(p []byte) (int, error) { return c.Conn.Read(p) }

// ReadNow reads what is there, without waiting. It returns 0 if there is nothing, or an error, which
// the next Read returns.
func (c *Conn) ReadNow(p []byte) (n int) {
	if len(p) == 0 {
		return 0
	}
	_ = c.raw.Read(func(fd uintptr) bool {
		n, _ = receive(fd, p)
		return true
	})
	return n
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (written int, err error) {
	if len(p) == 0 {
		return c.Conn.Write(p)
	}
	var failed syscall.Errno
	err = c.raw.Write(func(fd uintptr) bool {
		for failed = 0; failed == 0 && written < len(p); {
			var n int
			n, failed = send(fd, p[written:])
			written += n
		}
		return failed != unix.EAGAIN
	})
	if err != nil || failed != 0 {
		err = c.explain("write", err, failed)
	}
	return written, err
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

// explain returns the error that package net would return. err is the poller's, failed the system
// call's; one of them is set.
func (c *Conn) explain(op string, err error, failed syscall.Errno) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		e.Op = op // not raw-read, nor raw-write
	}
	if err != nil {
		return err
	}
	return &net.OpError{
		Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(),
		Err: os.NewSyscallError(op, failed),
	}
}
