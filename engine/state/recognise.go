// Whether a directory holds a store of ours, and in which format.

package state

import (
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/state/risk"
)

// recognise checks that Pebble may use the directory, because Pebble would use any directory.
func recognise(files vfs.FS, store string) error {
	info, err := files.Stat(store)
	if disk.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return records.ErrForeign
	}
	names, err := files.List(store)
	if err != nil {
		return err
	}
	if err := checkPebble(files, store); err != nil {
		return err
	}
	desc, err := pebble.Peek(store, files)
	if err != nil || desc.Exists {
		return err
	}
	for _, name := range names {
		switch extension := name[strings.LastIndexByte(name, '.')+1:]; {
		case extension == "sst":
			return damage("the list of its files is missing")
		case name == risk.Opening, name == writerName, name == log.NewestName, name == "LOCK",
			extension == "log",
			log.IsName(name),
			strings.HasPrefix(name, "MANIFEST-"), strings.HasPrefix(name, "OPTIONS-"),
			strings.HasPrefix(name, "marker."), strings.HasPrefix(name, "temporary."):
			// The making of this store was cut short.
		default:
			return records.ErrForeign
		}
	}
	return nil
}

// pebbleVersion returns the version of Pebble's format in a store, or 0 if that says none.
func pebbleVersion(files vfs.FS, store string) (uint64, error) {
	text, err := atomicfs.ReadMarker(files, store, "format-version")
	if err != nil {
		return 0, err
	}
	found, _ := strconv.ParseUint(text, 10, 64) // Pebble says what is wrong with it
	return found, nil
}

// checkPebble returns a *VersionError if a newer Pebble has written the store. Pebble's own error
// looks the same as damage.
func checkPebble(files vfs.FS, store string) error {
	found, err := pebbleVersion(files, store)
	if err == nil && found > uint64(pebbleFormat) {
		return &VersionError{Of: "database", Found: found, Reads: uint64(pebbleFormat)}
	}
	return err
}

// fewBytes is more than an empty store has: a table with the mark of our format, or the log in
// which earlier versions had it.
const fewBytes = 1 << 10

// isWritten reports, judging by the files, whether anything was written to a store.
func isWritten(files vfs.FS, store string) (bool, error) {
	names, err := files.List(store)
	if disk.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	size := int64(0)
	for _, name := range names {
		if isLog(name) || strings.HasSuffix(name, ".sst") {
			info, err := files.Stat(files.PathJoin(store, name))
			if err != nil {
				return false, err
			}
			size += info.Size()
		}
	}
	return size > fewBytes, nil
}

// checkFormat checks the format of a store. An empty store gets a format, and an older one the
// newer format. A replica's store gets a newer one only by an entry of the log.
func (d *database) checkFormat(db pebble.Reader) error {
	text, ok, err := get(db, records.FormatKey)
	if err != nil {
		return err
	}
	if !ok {
		empty := true
		it, err := db.NewIter(nil)
		if err != nil {
			return err
		}
		empty = !it.First()
		if err := errors.Join(it.Error(), it.Close()); err != nil {
			return err
		}
		if !empty {
			return records.ErrForeign
		}
		if d.written {
			return damage("its content is missing")
		}
		if d.readOnly != nil {
			return errNothing
		}
		if d.isShared {
			return d.setFormat(records.FirstShared)
		}
		return d.setFormat(d.limits.format)
	}
	version, err := records.ReadFormat(text)
	if newer := new(records.FormatError); errors.As(err, &newer) {
		d.format.note(newer.Found)
		return &VersionError{Found: newer.Found, Reads: newer.Reads}
	}
	if err != nil || d.readOnly != nil {
		return err
	}
	d.format.note(version)
	if version >= d.limits.format || d.isShared { // replicas agree on another version
		return nil
	}
	d.upgraded("the state", version, d.limits.format)
	return d.setFormat(d.limits.format)
}

// storeFormat is the version of a store's format. Any goroutine may use it.
type storeFormat struct {
	mu      sync.Mutex // held while the version is written; guards version
	version uint64
}

// note notes that the store is of a version, or was until now.
func (f *storeFormat) note(version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version = max(f.version, version)
}

// current returns the version that the store is of.
func (f *storeFormat) current() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version
}

// setFormat gives the store a version of our format.
func (d *database) setFormat(version uint64) error {
	d.format.mu.Lock()
	defer d.format.mu.Unlock()
	return d.writeFormat(version)
}

// raiseFormat gives the store a version of our format, unless it has that one or a later one.
func (d *database) raiseFormat(version uint64) error {
	d.format.mu.Lock()
	defer d.format.mu.Unlock()
	if version <= d.format.version {
		return nil
	}
	return d.writeFormat(version)
}

// writeFormat writes the version of the format. The caller holds format.mu.
func (d *database) writeFormat(version uint64) error {
	if err := d.pebble.Set(records.FormatKey, records.FormatOf(version), pebble.NoSync); err != nil {
		return err
	}
	if err := d.pebble.Flush(); err != nil {
		return err
	}
	d.format.version = version
	return nil
}

// shareFormat gives the stores of all replicas a version of our format, by an entry of the log that
// does nothing else. It returns once they have agreed on it.
func (d *database) shareFormat(version uint64) error {
	d.fail.logger.Info("the replicas' state gets another format",
		"from", d.format.current(), "to", version)
	var f log.Frame
	f.Reset(d.log.End())
	f.Change(log.Set, records.FormatKey)
	f.Value(records.FormatOf(version), nil)
	_, err := d.log.Append(&f)
	return err
}

// versionOf reads the record of the format, also if it is of a version that this informd cannot read.
func versionOf(record []byte) (uint64, error) {
	version, err := records.ReadFormat(record)
	if newer := new(records.FormatError); errors.As(err, &newer) {
		return newer.Found, nil
	}
	return version, err
}

// checkLog returns a *VersionError if a log sets a format that this informd cannot read.
func checkLog(c *log.Contents) error {
	if !c.Changes(string(records.FormatKey)) {
		return nil
	}
	record, _, err := c.Value(nil, string(records.FormatKey))
	if err != nil {
		return err
	}
	version, err := versionOf(record)
	if err == nil && version > records.NewestFormat {
		return &VersionError{Found: version, Reads: records.NewestFormat}
	}
	return err
}
