package state

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// privateFS is the operating system's, but that files are their owner's alone from the moment on that they are there. Pebble
// would leave that to the umask.
type privateFS struct{ vfs.FS }

func (p privateFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := os.Remove(name); err != nil && !isNotExist(err) {
		return nil, err // another file may be linked to it: it is not written over
	}
	return p.OpenReadWrite(name, c)
}

func (p privateFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	if err := makePrivate(name); err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, c, o...)
}

func (p privateFS) Lock(name string) (io.Closer, error) {
	if err := makePrivate(name); err != nil {
		return nil, err
	}
	lock, err := p.FS.Lock(name)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) { // as fcntl says it
		return nil, errTaken
	}
	return lock, err
}

// errTaken is that another process has the store, although this one has the directory: whoever removed the directory's LOCK
// let two of them in.
var errTaken = errors.New("another process has the store")

func (p privateFS) MkdirAll(name string, _ os.FileMode) error { return p.FS.MkdirAll(name, 0o700) }

func (p privateFS) Unwrap() vfs.FS { return p.FS }

// makePrivate makes a file, or changes the one of that name, so that it is its owner's alone.
func makePrivate(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Chmod(0o600); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
