package state

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// openingRoom is how many bytes opening may write, besides the store's logs, which it rewrites as
// tables.
const openingRoom = 1 << 20

// probe checks that the disk accepts writes and has the room that opening needs, so that Pebble
// does not run into it.
func probe(disk vfs.FS, dir string) error {
	if err := tryToWrite(disk, dir); err != nil {
		return fmt.Errorf("cannot write to %s: %w", dir, bare(err))
	}
	return nil
}

func tryToWrite(disk vfs.FS, dir string) error {
	name := disk.PathJoin(dir, "PROBE")
	if usage, err := disk.GetDiskUsage(dir); err == nil && usage.TotalBytes > 0 &&
		usage.AvailBytes < openingRoom+logBytes(disk, disk.PathJoin(dir, storeName)) {
		return syscall.ENOSPC
	}
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	if err == nil {
		err = f.Sync()
	}
	return cmp.Or(err, f.Close(), disk.Remove(name))
}

func logBytes(disk vfs.FS, store string) (size uint64) {
	names, _ := disk.List(store) // without a store there is nothing to add up
	for _, name := range names {
		if !isLog(name) {
			continue
		}
		if info, err := disk.Stat(disk.PathJoin(store, name)); err == nil {
			size += uint64(max(0, info.Size()))
		}
	}
	return size
}

// syncDir makes the entries of a directory survive a crash.
func syncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
