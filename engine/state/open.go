package state

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Open opens the store in dir, or makes one, and takes the directory for this process. What it cannot make use of is set
// aside. It starts nothing but what Pebble needs; [Store.Run] must be called, if only with a context that has ended,
// to write and to close.
//
// The errors are *[LockedError], and what the user must mend, such as a path that leads to a file. A disk that does not do
// its work is no error: what is on it is read all the same, if it can be. See the package.
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{
		dir:       dir,
		opts:      o,
		health:    &health{logger: o.Logger, dir: dir},
		wake:      make(chan struct{}, 1),
		informers: make(map[string]*Informer),
		lanes:     make(map[string]*Lane),
		records:   newRecords(),
	}
	err := s.openSoon()
	if unusable := new(unusableError); errors.As(err, &unusable) {
		return nil, unusable.error
	}
	if err != nil {
		s.cannotOpen(err)
	} else if why := s.db.Load().readOnly; why != nil {
		s.canOnlyRead(why)
	}
	return s, nil
}

// unusableError is an error that does not pass.
type unusableError struct{ error }

func (s *Store) cannotOpen(err error) {
	s.health.is("it cannot be opened: "+err.Error(), time.Now())
}

// openSoon opens, if that does not take too long. Otherwise the attempt ends by itself, some time, and in nothing.
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
			return errHangs
		}
		return <-done
	}
}

// openAfresh opens, once there is trouble no more. What is on disk was not read at the start, and is set aside.
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

// attempt opens, if need be only to read. What is doomed is set aside before. The caller holds s.opening.
func (s *Store) attempt() (*database, error) {
	disk := s.opts.disk
	if err := disk.MkdirAll(s.dir, 0o700); err != nil {
		return nil, unusable(fmt.Errorf("make state directory %s: %w", s.dir, err))
	}
	_ = syncDir(disk, disk.PathDir(s.dir)) // where that is not allowed it was not made by this process either
	if s.lock == nil {
		lock, err := s.opts.lock(s.dir)
		if err != nil {
			return nil, unusable(err)
		}
		s.lock = lock
		if info, err := disk.Stat(s.dir); err == nil && info.Mode().Perm()&0o022 != 0 {
			s.opts.Logger.Warn("others than this user can write to the state directory: chmod it to 0700", "dir", s.dir, "mode", info.Mode().Perm())
		}
	}
	defer s.listAside()
	d, err := s.openToWrite()
	if err != nil && isDisk(err) && s.doomed == "" {
		return s.openToRead(err)
	}
	return d, err
}

// openToWrite opens what is there, or something new.
func (s *Store) openToWrite() (*database, error) {
	disk := s.opts.disk
	if err := probe(disk, s.dir); err != nil {
		return nil, err
	}
	store := disk.PathJoin(s.dir, storeName)
	var cause error
	if s.doomed == "" {
		s.doomed = unfit(disk, store)
	}
	for fresh := false; ; fresh = true {
		if s.doomed != "" {
			if err := s.putAside(s.doomed, cause); err != nil {
				return nil, err
			}
			s.doomed = ""
		}
		d, err := openStore(disk, store, s.opts)
		if errors.Is(err, errTaken) {
			return nil, unusable(&LockedError{Dir: s.dir})
		}
		if err == nil || fresh || isDisk(err) {
			return d, err
		}
		s.doomed, cause = reason(err), err
	}
}

func unusable(err error) error {
	if locked := new(LockedError); errors.As(err, &locked) {
		return &unusableError{locked}
	}
	if isDisk(err) {
		return err
	}
	return &unusableError{err}
}

// putAside sets the store aside and says so, loudly. cause may be nil.
func (s *Store) putAside(why string, cause error) error {
	to, err := setAside(s.opts.disk, s.dir, why, time.Now())
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
	damaged:      "the state is damaged: it is set aside, and the daemon starts without it",
	foreign:      "the state directory holds a store that is not informd's: it is set aside, and the daemon starts without it",
	otherVersion: "the state is in another version's format: it is set aside, and the daemon starts without it",
	otherCluster: "the state is of another cluster: it is set aside, and the daemon starts without it",
	unread:       "the state could not be read when the daemon started: it is set aside, and what was recorded since is written",
	unstartable:  "the process ended ten times in a row while it opened the state: it is set aside, and the daemon starts without it",
}

func (s *Store) listAside() {
	names, err := asideIn(s.opts.disk, s.dir)
	if err != nil {
		return // it is for people's information
	}
	for i, name := range names {
		names[i] = s.opts.disk.PathJoin(s.dir, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setAside = names
}

// reason is why a store that gives err is set aside.
func reason(err error) string {
	if isDisk(err) {
		return unread
	}
	if errors.Is(err, errForeign) {
		return foreign
	}
	if version := new(versionError); errors.As(err, &version) {
		return otherVersion
	}
	return damaged
}

// openStore opens or makes what is in the directory store, and checks that it is ours.
func openStore(disk vfs.FS, store string, o Options) (*database, error) {
	if err := recognise(disk, store); err != nil {
		return nil, err
	}
	written, err := isWritten(disk, store)
	if err != nil {
		return nil, err
	}
	if err := disk.MkdirAll(store, 0o700); err != nil {
		return nil, err
	}
	if err := syncDir(disk, disk.PathDir(store)); err != nil {
		return nil, err
	}
	risk(disk, store, openingName)
	defer survived(disk, store, openingName)
	d, err := openPebble(disk, store, false, o)
	if err != nil {
		return nil, err
	}
	d.written = written
	if err := d.locked(d.checkFormat); err != nil {
		d.abandon()
		return nil, err
	}
	return d, nil
}

// startOver goes on with nothing, before Run: d turned out to be of no use.
func (s *Store) startOver(d *database, why string, cause error) {
	s.opening.Lock()
	same := s.db.CompareAndSwap(d, nil)
	if same {
		s.doomed = why
	}
	s.opening.Unlock()
	if !same {
		return // somebody else has seen to it
	}
	d.abandon()
	s.forget()
	if why == unread {
		s.cannotOpen(cause)
		return
	}
	s.opts.Logger.Error("what is in the state cannot be used", "error", cause.Error())
	if err := s.openSoon(); err != nil {
		s.cannotOpen(err)
	}
}
