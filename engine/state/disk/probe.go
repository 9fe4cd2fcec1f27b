// Trying whether a disk accepts writes.

package disk

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Probe checks that the disk accepts writes in a directory and has room for so many bytes. The
// errors name the directory.
func Probe(files vfs.FS, dir string, room func() uint64) error {
	if err := tryToWrite(files, dir, room); err != nil {
		return fmt.Errorf("cannot write to %s: %w", dir, bare(err))
	}
	return nil
}

func tryToWrite(files vfs.FS, dir string, room func() uint64) error {
	name := files.PathJoin(dir, "PROBE")
	if usage, err := files.GetDiskUsage(dir); err == nil && usage.TotalBytes > 0 &&
		usage.AvailBytes < room() {
		return syscall.ENOSPC
	}
	f, err := files.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	if err == nil {
		err = f.Sync()
	}
	return cmp.Or(err, f.Close(), files.Remove(name))
}

// SyncDir makes the entries of a directory survive a crash.
func SyncDir(files vfs.FS, dir string) error {
	d, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
