package log

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pipe lets several log handlers write to one pipe in turns, so that their lines do not mix. They
// lock it (flock). Such a lock belongs to an open file description. The one of the daemon's standard
// output is common to all handlers, so each opens the pipe once more.
type pipe struct {
	fd   int
	most int // bytes to write at once to an empty pipe: half of it, to leave room for other writers
}

// openPipe returns nil if file is no pipe, or cannot be opened or locked, such as for another user
// or in a sandbox without /proc.
func openPipe(file *os.File) *pipe {
	raw, err := file.SyscallConn()
	if info, e := file.Stat(); err != nil || e != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return nil
	}
	p := &pipe{fd: -1}
	_ = raw.Control(func(fd uintptr) {
		// Without O_NONBLOCK it would wait for a reader.
		const flags = unix.O_WRONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
		if p.fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), flags, 0); err == nil {
			p.most, err = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
			p.most /= 2
		}
	})
	if p.fd < 0 {
		return nil
	}
	if err == nil {
		err = unix.Flock(p.fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil && err != unix.EWOULDBLOCK { // another handler may have it
		p.close()
		return nil
	}
	p.unlock()
	return p
}

// lock waits until no other log handler writes to the pipe.
func (p *pipe) lock() error {
	for {
		if err := unix.Flock(p.fd, unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

func (p *pipe) unlock() { _ = unix.Flock(p.fd, unix.LOCK_UN) }

// room returns how many bytes can be written at once without waiting for the reader: all that fits,
// if the pipe is empty. Otherwise nobody knows, as the kernel keeps each write in pages of its own.
func (p *pipe) room() int {
	if n, err := unix.IoctlGetInt(p.fd, unix.TIOCINQ); err != nil || n > 0 {
		return 0
	}
	return p.most
}

func (p *pipe) close() { _ = unix.Close(p.fd) }
