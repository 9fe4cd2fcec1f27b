// The file system that is only read.

package disk

import (
	"io"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ReadOnly is a disk that is only read. The lock of the state directory keeps other processes out.
type ReadOnly struct{ vfs.FS }

func refuse(op, name string) error { return &os.PathError{Op: op, Path: name, Err: syscall.EROFS} }

func (ReadOnly) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuse("create", name)
}

func (ReadOnly) OpenReadWrite(
	name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption,
) (vfs.File, error) {
	return nil, refuse("open", name)
}

func (ReadOnly) ReuseForWrite(_, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuse("create", name)
}

func (ReadOnly) Link(_, name string) error                 { return refuse("link", name) }
func (ReadOnly) Rename(old, _ string) error                { return refuse("rename", old) }
func (ReadOnly) Remove(name string) error                  { return refuse("remove", name) }
func (ReadOnly) RemoveAll(name string) error               { return refuse("remove", name) }
func (ReadOnly) MkdirAll(name string, _ os.FileMode) error { return refuse("make", name) }
func (ReadOnly) Lock(string) (io.Closer, error)            { return io.NopCloser(nil), nil }
func (r ReadOnly) Unwrap() vfs.FS                          { return r.FS }
