//go:build !race

package rawcall

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receive receives into p, and send sends p, of which it may send a part. They never wait: the error
// is EAGAIN where they would have to. p is not empty.

func receive(fd uintptr, p []byte) (int, syscall.Errno) {
	return call(unix.SYS_RECVFROM, fd, p, unix.MSG_DONTWAIT)
}

func send(fd uintptr, p []byte) (int, syscall.Errno) {
	return call(unix.SYS_SENDTO, fd, p, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

func call(which, fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, failed := unix.RawSyscall6(which, fd,
			uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), flags, 0, 0)
		switch failed {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, failed
		}
	}
}
