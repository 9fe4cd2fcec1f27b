package state

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Open opens the store in dir, or makes one, and takes the directory for this process. What it cannot make use of is set
// aside. It starts nothing but what Pebble needs; [Store.Run] must be called, if only with a context that has ended,
// to write and to close.
//
// The errors are *[LockedError], and what the user must mend, such as a path that leads to a file. A disk that does not do
// its work is no error: see the package.
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
	err := s.openSoon("")
	if unusable := new(unusableError); errors.As(err, &unusable) {
		return nil, unusable.error
	}
	if err != nil {
		s.cannotOpen(err)
	}
	return s, nil
}

// unusableError is an error that does not pass.
type unusableError struct{ error }

func (s *Store) cannotOpen(err error) {
	s.health.is("it cannot be opened: "+err.Error(), time.Now())
}

// openSoon opens, if that does not take too long. Otherwise the attempt ends by itself, some time, and in nothing.
func (s *Store) openSoon(why string) error {
	var taken atomic.Bool
	done := make(chan error, 1)
	go func() {
		s.opening.Lock()
		defer s.opening.Unlock()
		d, err := s.attempt(why)
		switch {
		case taken.CompareAndSwap(false, true):
			if err == nil {
				s.db.Store(d)
			}
			done <- err
		case err == nil:
			d.abandon()
		}
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

// openAfresh opens, once there is trouble no more: what is on disk was not read at the start, and is set aside.
func (s *Store) openAfresh() {
	if !s.opening.TryLock() {
		return // an earlier attempt hangs
	}
	defer s.opening.Unlock()
	d, err := s.attempt(unread)
	if err != nil {
		s.cannotOpen(err)
		return
	}
	s.db.Store(d)
}

// attempt opens. If why is not empty, what is there is set aside for that reason. The caller holds s.opening.
func (s *Store) attempt(why string) (*database, error) {
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
	}
	if err := probe(disk, s.dir); err != nil {
		return nil, err
	}
	store := disk.PathJoin(s.dir, storeName)
	var cause error
	if why == "" {
		why = unfit(disk, store)
	}
	for fresh := false; ; fresh = true {
		if why != "" {
			if err := s.putAside(why, cause); err != nil {
				return nil, err
			}
		}
		d, err := openStore(disk, store, s.opts)
		if err == nil || fresh || isDisk(err) {
			s.listAside()
			return d, err
		}
		why, cause = reason(err), err
	}
}

// syncDir has the names in a directory survive a crash.
func syncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func unusable(err error) error {
	if isDisk(err) {
		return err
	}
	return &unusableError{err}
}

// probe tells whether the disk does its work: nothing above waits for Pebble to find out.
func probe(disk vfs.FS, dir string) error {
	name := disk.PathJoin(dir, "PROBE")
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), disk.Remove(name))
}

// putAside sets the store aside and says so, loudly. cause may be nil.
func (s *Store) putAside(why string, cause error) error {
	to, err := setAside(s.opts.disk, s.dir, why, time.Now())
	if err != nil || to == "" {
		return err
	}
	s.opts.Logger.Error(explanations[why], "setAside", to, "error", cause)
	s.listAside()
	return nil
}

var explanations = map[string]string{
	damaged:      "The state is damaged. It is set aside, and the daemon starts without it.",
	foreign:      "The state directory holds a store that is not informd's. It is set aside, and the daemon starts without it.",
	otherVersion: "The state is in another version's format. It is set aside, and the daemon starts without it.",
	otherCluster: "The state is of another cluster. It is set aside, and the daemon starts without it.",
	unread:       "The state could not be read when the daemon started. It is set aside, and what was recorded since is written.",
	unstartable:  "The process ended ten times in a row while it opened the state. It is set aside, and the daemon starts without it.",
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

// reason is why a store that cannot be opened, with an error that is none of the disk's, is set aside.
func reason(err error) string {
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
	if err := disk.MkdirAll(store, 0o700); err != nil {
		return nil, err
	}
	if err := syncDir(disk, disk.PathDir(store)); err != nil {
		return nil, err
	}
	risk(disk, store, openingName)
	defer survived(disk, store, openingName)
	d, err := openPebble(disk, store, o.limits.pause, o.Logger)
	if err != nil {
		return nil, err
	}
	if err := d.locked(d.checkFormat); err != nil {
		d.abandon()
		return nil, err
	}
	return d, nil
}

// recognise tells whether Pebble may have the directory: it would make itself at home anywhere.
func recognise(disk vfs.FS, store string) error {
	info, err := disk.Stat(store)
	if isNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errForeign
	}
	names, err := disk.List(store)
	if err != nil {
		return err
	}
	desc, err := pebble.Peek(store, disk)
	if err != nil || desc.Exists {
		return err
	}
	for _, name := range names {
		switch extension := name[strings.LastIndexByte(name, '.')+1:]; {
		case extension == "sst":
			return damage("the list of its files is missing")
		case name == openingName, name == "LOCK", extension == "log", strings.HasPrefix(name, "MANIFEST-"),
			strings.HasPrefix(name, "OPTIONS-"), strings.HasPrefix(name, "marker."), strings.HasPrefix(name, "temporary."):
			// Of a store whose making was cut short.
		default:
			return errForeign
		}
	}
	return nil
}

// checkFormat checks the format of a store, or gives an empty one its format.
func (d *database) checkFormat(db *pebble.DB) error {
	text, ok, err := get(db, formatKey)
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
			return errForeign
		}
		return db.Set(formatKey, appendFormat(nil), pebble.Sync)
	}
	if err := checkFormat(text); err != nil {
		return err
	}
	return d.dictionaries.load(db)
}

// startOver goes on with nothing, before Run: d turned out to be of no use.
func (s *Store) startOver(d *database, why string, cause error) {
	s.opening.Lock()
	same := s.db.CompareAndSwap(d, nil)
	s.opening.Unlock()
	if !same {
		return // somebody else has seen to it
	}
	d.abandon()
	s.forget()
	if isDisk(cause) {
		s.cannotOpen(cause)
		return
	}
	s.opts.Logger.Error("What is in the state cannot be used.", "error", cause)
	if err := s.openSoon(why); err != nil {
		s.cannotOpen(err)
	}
}
