// Opening the store at the start and later, and giving up one that is unusable.

package state

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/state/risk"
)

// LockedError means that another process uses the directory.
type LockedError = disk.LockedError

// Open opens the store in dir, or makes one, and locks the directory for this process. It sets
// aside a store that it cannot use. It starts only what Pebble needs. [Store.Run] must be called to
// write and to close, even if its context has already ended.
// The errors are *[LockedError], and mistakes that the user has to correct, such as a path that
// names a file, or a state of a newer version: *[VersionError]. A failing disk is not an error: Open
// reads what it can. See the package comment.
func Open(dir string, o Options) (*Store, error) {
	s := newStore(dir, o.withDefaults())
	err := s.openSoon()
	if unusable := new(unusableError); errors.As(err, &unusable) {
		s.opener.unlock()
		return nil, unusable.error
	}
	if err != nil {
		s.cannotOpen(err)
	} else if why := s.db.Load().readOnly; why != nil {
		s.canOnlyRead(why)
	}
	return s, nil
}

// newStore returns a Store that is not open yet.
func newStore(dir string, o Options) *Store {
	s := &Store{
		dir:          dir,
		opts:         o,
		health:       &health{logger: o.Logger, dir: dir, isStrict: o.Strict},
		number:       1,
		informers:    make(map[string]*Objects),
		lanes:        make(map[string]*Lane),
		storeRecords: newStoreRecords(),
	}
	s.opener.dir, s.opener.opts = dir, &s.opts
	s.progress.init()
	return s
}

func (s *Store) cannotOpen(err error) {
	reason := err.Error()
	if _, ok := err.(*fs.PathError); ok { // whose text would read like an order
		reason = "cannot " + reason
	}
	s.health.is("it cannot be opened: "+reason, s.opts.Clock.Now())
}

// openSoon opens the store unless that takes too long. An attempt that finishes too late has no
// effect.
func (s *Store) openSoon() error {
	var taken atomic.Bool
	done := make(chan error, 1)
	go func() {
		s.opener.mu.Lock()
		defer s.opener.mu.Unlock()
		d, err := s.opener.attempt()
		if taken.CompareAndSwap(false, true) && err == nil {
			s.db.Store(d)
			done <- nil
			return
		}
		if err == nil {
			d.abandon()
		}
		if s.opener.doomed == "" {
			s.opener.doomed = unread
		}
		done <- err
	}()
	timer := time.NewTimer(s.opts.limits.opening)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		if taken.CompareAndSwap(false, true) {
			return disk.ErrHangs
		}
		return <-done
	}
}

// openAfresh opens the store when the trouble is over. It sets aside the store on disk, because
// that was not read at the start.
func (s *Store) openAfresh() {
	if !s.opener.mu.TryLock() {
		return // an earlier attempt hangs
	}
	defer s.opener.mu.Unlock()
	d, err := s.opener.attempt()
	if err != nil {
		s.cannotOpen(err)
		return
	}
	s.db.Store(d)
}

// openStore opens or makes the store in the directory named store, and checks its format.
func openStore(files vfs.FS, store string, o Options) (*database, error) {
	if err := recognise(files, store); err != nil {
		return nil, err
	}
	written, err := isWritten(files, store)
	if err != nil {
		return nil, err
	}
	if err := files.MkdirAll(store, 0o700); err != nil {
		return nil, err
	}
	if err := disk.SyncDir(files, files.PathDir(store)); err != nil {
		return nil, err
	}
	risk.Begin(files, store, risk.Opening)
	defer risk.Survived(files, store, risk.Opening)
	was, err := pebbleVersion(files, store)
	if err != nil {
		return nil, err
	}
	d, err := openPebble(files, store, false, o)
	if err != nil {
		return nil, err
	}
	d.written, d.wroteBefore = written, writerOf(files, store)
	if err := d.begin(d.fs); err != nil {
		if d.isShared { // the replica opens it again at once
			return nil, errors.Join(err, d.close())
		}
		d.abandon()
		return nil, err
	}
	if now := uint64(pebbleFormat); was > 0 && was < now {
		d.upgraded("the state's database", was, now)
	}
	signStore(files, store, o.Version)
	return d, nil
}

// begin checks the format, and reads what an earlier process left in logs.
func (d *database) begin(files vfs.FS) error {
	return d.locked(func(db pebble.Reader) error {
		if err := d.checkFormat(db); err != nil {
			return err
		}
		if err := d.recover(files); err != nil {
			return err
		}
		if err := d.renewFormat(); err != nil {
			return err
		}
		return d.dictionaries.load(d.reader())
	})
}

// renewFormat gives the store the version of the format that this informd writes. recover must have
// moved the logs of an earlier process into the store.
func (d *database) renewFormat() error {
	switch is := d.format.current(); {
	case d.readOnly != nil:
	case d.isShared && is < records.SharedFormat:
		return d.shareFormat(records.SharedFormat)
	case !d.isShared && is == records.PartedFormat:
		return d.setFormat(d.limits.format)
	}
	return nil
}

// startOver drops d, which turned out to be unusable, and opens an empty store. It is called before
// Run.
func (s *Store) startOver(d *database, why string, cause error) {
	if d.isShared { // the other replicas have the content
		if disk.IsAtFault(cause) {
			s.broken.Store(true)
			s.end()
			_ = s.opts.replica.fail(cause) // whoever waits for Failed gets it
			return
		}
		s.breakDown(d, cause)
		return
	}
	s.opener.mu.Lock()
	same := s.db.CompareAndSwap(d, nil)
	if same {
		s.opener.doomed = why
	}
	s.opener.mu.Unlock()
	if !same {
		return // another goroutine has done it
	}
	d.abandon()
	s.forget()
	if why == unread {
		s.cannotOpen(cause)
		return
	}
	s.opts.Logger.Error("the content of the state is unusable", "error", cause.Error())
	if err := s.openSoon(); err != nil {
		s.cannotOpen(err)
	}
}
