package state

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/state/risk"
	"github.com/informd/informd/internal/ownfile"
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
	o = o.withDefaults()
	s := &Store{
		dir:          dir,
		opts:         o,
		health:       &health{logger: o.Logger, dir: dir},
		number:       1,
		wake:         newSignal(),
		stir:         newSignal(),
		wakeSync:     newSignal(),
		informers:    make(map[string]*Objects),
		lanes:        make(map[string]*Lane),
		storeRecords: newStoreRecords(),
	}
	err := s.openSoon()
	if unusable := new(unusableError); errors.As(err, &unusable) {
		s.unlock()
		return nil, unusable.error
	}
	if err != nil {
		s.cannotOpen(err)
	} else if why := s.db.Load().readOnly; why != nil {
		s.canOnlyRead(why)
	}
	return s, nil
}

// unusableError is an error that does not go away by waiting.
type unusableError struct{ error }

// unlock releases the directory.
func (s *Store) unlock() {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.lock != nil {
		_ = s.lock.Close() // the lock ends with the process at the latest
		s.lock = nil
	}
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
		s.opening.Lock()
		defer s.opening.Unlock()
		d, err := s.attempt()
		if taken.CompareAndSwap(false, true) && err == nil {
			s.db.Store(d)
			done <- nil
			return
		}
		if err == nil {
			d.abandon()
		}
		if s.doomed == "" {
			s.doomed = unread
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
	if !s.opening.TryLock() {
		return // an earlier attempt hangs
	}
	defer s.opening.Unlock()
	d, err := s.attempt()
	if err != nil {
		s.cannotOpen(err)
		return
	}
	s.db.Store(d)
}

// attempt opens the store, only for reading if it must. It first sets aside a doomed store. The
// caller holds s.opening.
func (s *Store) attempt() (*database, error) {
	files := s.opts.disk
	if err := files.MkdirAll(s.dir, 0o700); err != nil {
		return nil, unusable(fmt.Errorf("cannot make the state directory %s: %w", s.dir, err))
	}
	_ = disk.SyncDir(files, files.PathDir(s.dir)) // if denied, an earlier process made the directory
	if s.lock == nil {
		lock, err := s.opts.lock(s.dir)
		if err != nil {
			return nil, unusable(err)
		}
		s.lock = lock
		if s.opts.CatchCrashes {
			risk.CountCrashes(files, s.dir, files.PathJoin(s.dir, storeName))
		}
		s.warnOfOthers()
	}
	defer s.listAside()
	d, err := s.openToWrite()
	if err != nil && disk.IsAtFault(err) && s.doomed == "" {
		return s.openToRead(err)
	}
	return d, err
}

// warnOfOthers warns if other users can change the state.
func (s *Store) warnOfOthers() {
	info, err := s.opts.disk.Stat(s.dir)
	if err != nil {
		return
	}
	if owner, foreign := ownfile.Foreign(info); foreign {
		s.opts.Logger.Warn("the state directory belongs to another user, who can change the state: "+
			"chown it to informd's user", "dir", s.dir, "owner", owner)
	}
	if info.Mode().Perm()&0o022 != 0 {
		s.opts.Logger.Warn("other users can write to the state directory: "+
			"chmod it to 0700", "dir", s.dir, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
}

// openToWrite opens the store that is there, or a new one.
func (s *Store) openToWrite() (*database, error) {
	files := s.opts.disk
	if err := hasRoom(files, s.dir); err != nil {
		return nil, err
	}
	store := files.PathJoin(s.dir, storeName)
	var cause error
	if s.doomed == "" {
		s.doomed = unfit(files, store)
	}
	s.isNew.Store(s.doomed == "" && isUnused(files, s.dir))
	for fresh := false; ; fresh = true {
		if s.doomed != "" {
			if err := s.putAside(s.doomed, cause); err != nil {
				return nil, err
			}
			s.doomed = ""
		}
		d, err := openStore(files, store, s.opts)
		if errors.Is(err, disk.ErrTaken) {
			return nil, unusable(&LockedError{Dir: s.dir})
		}
		if err == nil || fresh || disk.IsAtFault(err) {
			return d, err
		}
		if err := s.refuses(err); err != nil {
			return nil, err
		}
		s.doomed, cause = reason(err), err
	}
}

// refuses returns the error with which a start ends because of what opening the store failed with,
// or nil if the store is to be set aside.
func (s *Store) refuses(err error) error {
	newer := new(VersionError)
	if !errors.As(err, &newer) {
		return nil
	}
	newer.Dir, newer.Writer = s.dir, writerOf(s.opts.disk, s.opts.disk.PathJoin(s.dir, storeName))
	if s.opts.SetAside { // then newer is logged
		return nil
	}
	return unusable(newer)
}

// isUnused reports whether no process has had a store in dir before.
func isUnused(files vfs.FS, dir string) bool {
	_, err := files.Stat(files.PathJoin(dir, storeName))
	aside, failed := asideIn(files, dir)
	return disk.IsNotExist(err) && failed == nil && len(aside) == 0
}

func unusable(err error) error {
	if locked := new(LockedError); errors.As(err, &locked) {
		return &unusableError{locked}
	}
	if disk.IsAtFault(err) {
		return err
	}
	return &unusableError{err}
}

// putAside sets the store aside and logs an error. cause may be nil.
func (s *Store) putAside(why string, cause error) error {
	to, err := setAside(s.opts.disk, s.dir, why, s.opts.Clock.Now())
	if err != nil || to == "" {
		return err
	}
	attrs := []any{"setAside", to}
	if cause != nil {
		attrs = append(attrs, "error", cause.Error())
	}
	s.opts.Logger.Error(explanations[why], attrs...)
	s.listAside()
	return nil
}

var explanations = map[string]string{
	damaged: "the state is damaged: it is set aside, and the daemon starts without it",
	foreign: "the state directory holds a store that is not informd's: " +
		"it is set aside, and the daemon starts without it",
	otherVersion: "the state is in another version's format: " +
		"it is set aside, and the daemon starts without it",
	otherCluster: "the state belongs to another cluster: " +
		"it is set aside, and the daemon starts without it",
	unread: "the state could not be read when the daemon started: " +
		"it is set aside, and a new one begins with what was recorded since",
	unstartable: "the process crashed ten times in a row in the state: " +
		"it is set aside, and the daemon starts without it",
}

func (s *Store) listAside() {
	names, err := asideIn(s.opts.disk, s.dir)
	if err != nil {
		return // the list only serves people
	}
	var last time.Time
	if n := len(names); n > 0 {
		last = asideAt(names[n-1])
	}
	for i, name := range names {
		names[i] = s.opts.disk.PathJoin(s.dir, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setAside, s.lastAside = names, last
}

// reason returns why a store that fails with err is set aside.
func reason(err error) string {
	if disk.IsAtFault(err) {
		return unread
	}
	if errors.Is(err, records.ErrForeign) {
		return foreign
	}
	if version := new(VersionError); errors.As(err, &version) {
		return otherVersion
	}
	return damaged
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
		if d.isParted && d.readOnly == nil { // the store has the logs that were
			if err := d.setFormat(records.FormatVersion); err != nil {
				return err
			}
			d.isParted = false
		}
		return d.dictionaries.load(d.reader())
	})
}

// startOver drops d, which turned out to be unusable, and opens an empty store. It is called before
// Run.
func (s *Store) startOver(d *database, why string, cause error) {
	s.opening.Lock()
	same := s.db.CompareAndSwap(d, nil)
	if same {
		s.doomed = why
	}
	s.opening.Unlock()
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
