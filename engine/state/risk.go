package state

import (
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Files in the store's own directory, so that they go with it when it is set aside. They are written without a sync: they
// tell of processes that ended, not of machines.
const (
	damagedName    = "DAMAGED"    // the store was found to be damaged while the daemon ran
	openingName    = "OPENING"    // how many times in a row it was being opened when the process ended
	compactingName = "COMPACTING" // how many times in a row it was being compacted when the process ended
)

// maxEnds is how often a store may be at hand when the process ends, in the same way and without ever getting through: what
// is damaged can have Pebble panic on a goroutine of its own. Processes end for other reasons too, but not ten times in a
// row within these moments.
const maxEnds = 10

// unfit is why the store must not be opened, "" if it may.
func unfit(fs vfs.FS, store string) string {
	if _, err := fs.Stat(fs.PathJoin(store, damagedName)); err == nil {
		return damaged
	}
	if max(ends(fs, store, openingName), ends(fs, store, compactingName)) >= maxEnds {
		return unstartable
	}
	return ""
}

func ends(fs vfs.FS, store, name string) int {
	f, err := fs.Open(fs.PathJoin(store, name))
	if err != nil {
		return 0
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 32))
	n, _ := strconv.Atoi(strings.TrimSpace(string(text))) // what cannot be read says nothing
	return n
}

// risk takes note that something begins which the process might not survive. The errors of a disk are not its concern.
func risk(fs vfs.FS, store, name string) {
	n := ends(fs, store, name) + 1
	f, err := fs.Create(fs.PathJoin(store, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return
	}
	_, _ = f.Write([]byte(strconv.Itoa(n)))
	_ = f.Close()
}

// survived ends a risk.
func survived(fs vfs.FS, store, name string) { _ = fs.Remove(fs.PathJoin(store, name)) }
