// The disk as the log sees it, and the log's errors as the store's.

package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/log"
)

// logFiles is a disk as the log sees it.
type logFiles struct{ vfs.FS }

var _ log.Files = logFiles{}

// Create implements log.Files.
func (l logFiles) Create(name string) (log.Writer, error) {
	return l.FS.Create(name, vfs.WriteCategoryUnspecified)
}

// Continue implements log.Files.
func (l logFiles) Continue(name string, at int64) (log.Writer, error) {
	return disk.Continue(l.FS, name, at)
}

// Open implements log.Files.
func (l logFiles) Open(name string) (r log.Reader, length int64, err error) {
	file, err := l.FS.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// SyncDir implements log.Files.
func (l logFiles) SyncDir(dir string) error { return disk.SyncDir(l.FS, dir) }

// Join implements log.Files.
func (l logFiles) Join(dir, name string) string { return l.FS.PathJoin(dir, name) }

// logError turns an error of the log into one of the store: damage, or a *VersionError. Errors of
// the disk stay as they are.
func logError(err error) error {
	if newer := new(log.VersionError); errors.As(err, &newer) {
		return &VersionError{Of: "log", Found: newer.Found, Reads: newer.Reads}
	}
	if errors.Is(err, log.ErrMalformed) {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	if errors.Is(err, log.ErrShort) {
		return damage(err)
	}
	return err
}
