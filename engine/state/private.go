package state

import (
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// privateFS is the operating system's, but that files are their owner's alone. Pebble would leave that to the umask. Between
// the making of a file and its mode the directory, which is 0700, keeps others away.
type privateFS struct{ vfs.FS }

func (p privateFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return private(p.FS.Create(name, c))(name)
}

func (p privateFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return private(p.FS.OpenReadWrite(name, c, o...))(name)
}

func (p privateFS) Lock(name string) (io.Closer, error) {
	lock, err := p.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, 0o600); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

func (p privateFS) MkdirAll(name string, _ os.FileMode) error { return p.FS.MkdirAll(name, 0o700) }

func (p privateFS) Unwrap() vfs.FS { return p.FS }

func private(f vfs.File, err error) func(name string) (vfs.File, error) {
	return func(name string) (vfs.File, error) {
		if err != nil {
			return nil, err
		}
		if err := os.Chmod(name, 0o600); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
}
