// A store on a disk that accepts no writes, and going on from it once the disk does.

package state

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/risk"
)

var errNothing = errors.New("it is empty")

// readStore opens the store in the directory named store, for reading only.
func readStore(files vfs.FS, store string, o Options, cause error) (*database, error) {
	if err := recognise(files, store); err != nil {
		return nil, err
	}
	trace, err := traceOf(files, store)
	if err != nil {
		return nil, err
	}
	written, err := isWritten(files, store)
	if err != nil {
		return nil, err
	}
	d, err := openPebble(files, store, true, o)
	if err != nil {
		return nil, err
	}
	d.readOnly, d.trace, d.written = cause, trace, written
	if err := d.begin(disk.ReadOnly{FS: files}); err != nil {
		d.abandon()
		return nil, err
	}
	return d, nil
}

// trace shows whether a store on disk has changed.
type trace [sha256.Size]byte

// besideData are the files of a store that hold nothing of the state.
var besideData = []string{
	risk.Opening, risk.Compacting, risk.Damaged, writerName, log.NewestName, "LOCK",
}

// traceOf covers the names and sizes of all files, and the contents of the logs and manifests.
// Those may not have been synced when they were read: the kernel forgets a page that it could not
// write. All other files were synced before anything refers to them.
func traceOf(files vfs.FS, store string) (t trace, err error) {
	names, err := files.List(store)
	if err != nil {
		return t, err
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		if slices.Contains(besideData, name) {
			continue
		}
		info, err := files.Stat(files.PathJoin(store, name))
		if err != nil {
			return t, err
		}
		fmt.Fprintf(sum, "%q %d\n", name, info.Size())
		if isLog(name) || strings.HasPrefix(name, "MANIFEST-") {
			f, err := files.Open(files.PathJoin(store, name))
			if err != nil {
				return t, err
			}
			_, err = io.Copy(sum, f)
			if err := errors.Join(err, f.Close()); err != nil {
				return t, err
			}
		}
	}
	return trace(sum.Sum(nil)), nil
}

// isLog reports whether a file is a log: one of ours, or Pebble's own, as earlier versions wrote
// them.
func isLog(name string) bool {
	return log.IsName(name) || strings.HasSuffix(name, ".log")
}

// goOn opens d for writing once the disk accepts writes again. Memory was loaded from d and has
// changed since; the unwritten records are the difference. So the disk must still hold d, otherwise
// nothing may be written.
func (s *Store) goOn(d *database) {
	if !s.opener.mu.TryLock() {
		return // an earlier attempt hangs
	}
	defer s.opener.mu.Unlock()
	files := s.opts.disk
	store := files.PathJoin(s.dir, storeName)
	if err := hasRoom(files, s.dir); err != nil {
		s.canOnlyRead(err)
		return
	}
	if now, err := traceOf(files, store); err != nil && disk.IsAtFault(err) {
		s.canOnlyRead(err)
		return
	} else if err != nil || now != d.trace {
		if err == nil {
			err = errors.New("its files have changed")
		}
		s.broken.Store(true)
		s.opts.Logger.Error("the state on disk is not the one that was read at the start: "+
			"informd writes nothing more, and the next start resumes from what is on disk",
			"dir", s.dir, "error", err.Error())
		s.health.remains("the state on disk is not the one that was read at the start; "+
			"the next start resumes from what is on disk", s.opts.Clock.Now())
		s.end()
		return
	}
	if err := d.close(); err != nil {
		// The store was only read.
		s.opts.Logger.Debug("the state could not be closed cleanly",
			"dir", s.dir, "error", err.Error())
	}
	opened, err := openStore(files, store, s.opts)
	if err != nil && !disk.IsAtFault(err) {
		s.breakDown(d, err)
		return
	}
	if err != nil {
		s.canOnlyRead(err)
		if opened, err = readStore(files, store, s.opts, err); err != nil {
			return // the next attempt uses d again
		}
	}
	opened.dictionaries = d.dictionaries
	s.db.Store(opened)
}

func (s *Store) canOnlyRead(err error) {
	s.health.is("it can be read, but not written: "+err.Error(), s.opts.Clock.Now())
}
