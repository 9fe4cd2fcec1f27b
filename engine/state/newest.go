package state

import (
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// newestName is the file in the store's directory with the number of the newest log that was made.
const newestName = "NEWEST"

// noteNewest notes that a log was made and is the newest. Errors of the disk do not matter here:
// the next start then does not notice if the log is missing.
func noteNewest(files vfs.FS, store string, number uint64) {
	f, err := files.Create(files.PathJoin(store, newestName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return
	}
	_, _ = f.Write(strconv.AppendUint(nil, number, 10))
	_ = f.Close()
}

// newestLog returns the number of the newest log that was made, or 0 if it is not known. The store
// may have it, and it may be gone.
func newestLog(files vfs.FS, store string) uint64 {
	f, err := files.Open(files.PathJoin(store, newestName))
	if err != nil {
		return 0
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 32))
	n, _ := strconv.Atoi(strings.TrimSpace(string(text))) // an unreadable file counts as 0
	return uint64(n)
}
