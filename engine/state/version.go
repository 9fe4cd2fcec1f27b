// Versions of the format and of informd, and the errors about an older or newer one.

package state

import (
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// VersionError means that the state is in a format that this informd cannot read. Nothing has
// happened to it.
type VersionError struct {
	Dir          string
	Of           string // the part in that format, such as a log; "" means the whole
	Found, Reads uint64 // the version of the format, and the newest that can be read
	Writer       string // the version of informd that wrote the state; "" if unknown
}

func (e *VersionError) Error() string {
	by := "another informd"
	if e.Writer != "" {
		by = "informd " + e.Writer
	}
	whose := "its format"
	if e.Of != "" {
		whose = "the format of its " + e.Of
	}
	return fmt.Sprintf("the state in %s was written by %s: %s is version %d, and this informd reads "+
		"version %d and earlier. To go on with the state, start that informd, or a later one",
		e.Dir, by, whose, e.Found, e.Reads)
}

// writerName is the file in the store's directory that names the version of informd that wrote the
// store last. It only serves people, so it is not synced, and errors of the disk do not matter.
const writerName = "WRITER"

// maxWriter bounds the bytes of a version that are read and written.
const maxWriter = 128

// writerOf returns which version of informd wrote a store, or "".
func writerOf(files vfs.FS, store string) string {
	f, err := files.Open(files.PathJoin(store, writerName))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxWriter))
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, string(text))
}

// signStore notes that this version of informd writes a store from now on.
func signStore(files vfs.FS, store, version string) {
	if version == "" || writerOf(files, store) == version {
		return
	}
	f, err := files.Create(files.PathJoin(store, writerName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return
	}
	_, _ = f.Write([]byte(version[:min(len(version), maxWriter-1)] + "\n"))
	_ = f.Close()
}

// upgraded logs that an informd from before version to cannot read the store any more.
func (d *database) upgraded(of string, from, to uint64) {
	d.fail.logger.Warn("the format of the state was upgraded: "+
		"earlier versions of informd cannot read it",
		"dir", d.dir, "formatOf", of, "from", from, "to", to, "writtenBy", d.wroteBefore,
		"wayBack", "before you start an earlier informd, move "+d.dir+" away: it then begins "+
			"without a state, and its rules receive all objects as synced")
}
