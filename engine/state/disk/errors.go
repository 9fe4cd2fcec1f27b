// Which errors are the disk's.

package disk

import (
	"errors"
	"io/fs"
	"syscall"
)

// ErrHangs means that the disk has not answered in time.
var ErrHangs = errors.New("the disk does not answer")

// IsNotExist reports whether err says that a file does not exist.
func IsNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// IsAtFault reports whether err is about the disk or permissions, and not about the content of the
// disk.
func IsAtFault(err error) bool {
	if errors.Is(err, ErrHangs) {
		return true
	}
	var errno syscall.Errno
	return errors.As(err, &errno) &&
		!errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) &&
		errno != syscall.ENOTDIR && errno != syscall.EISDIR && errno != syscall.EINVAL &&
		errno != syscall.ELOOP && errno != syscall.ENAMETOOLONG
}
