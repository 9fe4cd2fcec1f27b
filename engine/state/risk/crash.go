// Whether the process before this one crashed in the store.

package risk

import (
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// crashName is the file in the state directory into which Go's runtime writes the panic or fatal
// error that ends the process: what it also writes to standard error.
const crashName = "CRASHED"

// maxCrash bounds the bytes that are read of it. The goroutine that crashed comes first.
const maxCrash = 64 << 10

// CountCrashes makes the notes that Begin leaves count crashes in the store only: it takes back
// that of the process before if that ended in another way. dir is where the runtime notes crashes.
func CountCrashes(fs vfs.FS, dir, store string) {
	if catchCrashes(dir) {
		return
	}
	for _, name := range []string{Opening, Compacting} {
		forgive(fs, store, name)
	}
}

// catchCrashes makes the runtime note crashes of this process, and reports whether the one before
// it crashed in the store. Errors of the disk do not matter here: without a note, no crash counts.
func catchCrashes(dir string) (inStore bool) {
	const how = os.O_RDWR | os.O_CREATE | syscall.O_NOFOLLOW
	f, err := os.OpenFile(filepath.Join(dir, crashName), how, 0o600)
	if err != nil {
		return false
	}
	defer f.Close() // the runtime has a copy
	text, _ := io.ReadAll(io.LimitReader(f, maxCrash))
	if f.Truncate(0) != nil {
		return false
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false
	}
	if debug.SetCrashOutput(f, debug.CrashOptions{}) != nil {
		return false
	}
	return isCrashInStore(string(text))
}

// isCrashInStore reports whether what the runtime wrote is about a crash of Pebble, of this
// package or of those below it. Lack of memory is nobody's fault.
func isCrashInStore(text string) bool {
	head, trace, ok := strings.Cut(text, "\ngoroutine ")
	switch {
	case strings.Contains(head, "out of memory"), strings.Contains(head, "cannot allocate memory"):
		return false
	case !ok: // GOTRACEBACK=none
		return text != ""
	}
	first, _, _ := strings.Cut(trace, "\n\n")
	return strings.Contains(first, "github.com/cockroachdb/pebble/") ||
		strings.Contains(first, "github.com/informd/informd/engine/state.") ||
		strings.Contains(first, "github.com/informd/informd/engine/state/")
}

// forgive takes back what Begin noted of an operation in which the process ended before.
func forgive(fs vfs.FS, store, name string) {
	switch n := Count(fs, store, name); {
	case n > 1:
		write(fs, store, name, strconv.Itoa(n-1))
	case n == 1:
		Survived(fs, store, name)
	}
}
