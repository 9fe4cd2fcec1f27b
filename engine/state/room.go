// The room on disk that opening needs.

package state

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/disk"
)

// openingRoom is how many bytes opening may write, besides the store's logs, which it rewrites as
// tables.
const openingRoom = 1 << 20

// hasRoom checks that the disk accepts writes and has the room that opening needs, so that Pebble
// does not run into it.
func hasRoom(files vfs.FS, dir string) error {
	return disk.Probe(files, dir, func() uint64 {
		return openingRoom + logBytes(files, files.PathJoin(dir, storeName))
	})
}

// logBytes returns how long the logs of a store are.
func logBytes(files vfs.FS, store string) (size uint64) {
	names, _ := files.List(store) // without a store there is nothing to add up
	for _, name := range names {
		if !isLog(name) {
			continue
		}
		if info, err := files.Stat(files.PathJoin(store, name)); err == nil {
			size += uint64(max(0, info.Size()))
		}
	}
	return size
}
