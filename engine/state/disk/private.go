// The file system whose files are private.

package disk

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Private is the operating system's file system, except that files are private to their owner
// from the moment they exist. Pebble leaves that to the umask.
type Private struct{ vfs.FS }

func (p Private) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := os.Remove(name); err != nil && !IsNotExist(err) {
		return nil, err // another file may be linked to it, and must not be overwritten
	}
	return p.OpenReadWrite(name, c)
}

func (p Private) OpenReadWrite(
	name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption,
) (vfs.File, error) {
	if err := makePrivate(name); err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, c, o...)
}

func (p Private) Lock(name string) (io.Closer, error) {
	if isShared(name) { // Pebble would truncate the other file
		if err := os.Remove(name); err != nil && !IsNotExist(err) {
			return nil, err
		}
	}
	if err := makePrivate(name); err != nil {
		return nil, err
	}
	lock, err := p.FS.Lock(name)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) { // what fcntl returns
		return nil, ErrTaken
	}
	return lock, err
}

// isShared reports whether a name is a link to another file, or one of several names of one.
func isShared(name string) bool {
	info, err := os.Lstat(name)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode()&os.ModeSymlink != 0 || ok && stat.Nlink > 1
}

// ErrTaken means that another process has the store although this one has the directory: somebody
// removed the directory's LOCK file.
var ErrTaken = errors.New("another process has the store")

func (p Private) MkdirAll(name string, _ os.FileMode) error { return p.FS.MkdirAll(name, 0o700) }

func (p Private) Unwrap() vfs.FS { return p.FS }

// makePrivate makes a file that is private to its owner, or makes an existing file private. A link
// is an error.
func makePrivate(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := f.Chmod(0o600); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
