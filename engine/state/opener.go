// The directory of the store: its lock, and which store in it is opened, how, or set aside.

package state

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/state/risk"
	"github.com/informd/informd/internal/ownfile"
)

// opener opens the store in a directory: for writing if the disk allows that, otherwise to read it.
// It locks the directory, and sets aside a store that cannot be used. It knows the disk's content,
// and nothing about the records of this run.
type opener struct {
	dir   string
	opts  *Options
	isNew atomic.Bool // no process has had a store in dir before this one

	mu     sync.Mutex // held while the store is opened or set aside; guards the fields below
	lock   io.Closer
	doomed string // why to set aside what is on disk before the first write; "" means keep it

	listing   sync.Mutex // guards the fields below; a leaf
	setAside  []string
	lastAside time.Time
}

// unusableError is an error that does not go away by waiting.
type unusableError struct{ error }

// unlock releases the directory. The caller does not hold mu.
func (o *opener) unlock() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lock != nil {
		_ = o.lock.Close() // the lock ends with the process at the latest
		o.lock = nil
	}
}

// attempt opens the store, only for reading if it must. It first sets aside a doomed store. The
// caller holds mu.
func (o *opener) attempt() (*database, error) {
	files := o.opts.disk
	if err := files.MkdirAll(o.dir, 0o700); err != nil {
		return nil, unusable(fmt.Errorf("cannot make the state directory %s: %w", o.dir, err))
	}
	_ = disk.SyncDir(files, files.PathDir(o.dir)) // if denied, an earlier process made the directory
	if o.lock == nil {
		lock, err := o.opts.lock(o.dir)
		if err != nil {
			return nil, unusable(err)
		}
		o.lock = lock
		if o.opts.CatchCrashes {
			risk.CountCrashes(files, o.dir, files.PathJoin(o.dir, storeName))
		}
		o.warnOfOthers()
	}
	defer o.listAside()
	d, err := o.openToWrite()
	if err != nil && disk.IsAtFault(err) && o.doomed == "" {
		return o.openToRead(err)
	}
	return d, err
}

// warnOfOthers warns if other users can change the state.
func (o *opener) warnOfOthers() {
	info, err := o.opts.disk.Stat(o.dir)
	if err != nil {
		return
	}
	if owner, foreign := ownfile.Foreign(info); foreign {
		o.opts.Logger.Warn("the state directory belongs to another user, who can change the state: "+
			"chown it to informd's user", "dir", o.dir, "owner", owner)
	}
	if info.Mode().Perm()&0o022 != 0 {
		o.opts.Logger.Warn("other users can write to the state directory: "+
			"chmod it to 0700", "dir", o.dir, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
}

// openToWrite opens the store that is there, or a new one.
func (o *opener) openToWrite() (*database, error) {
	files := o.opts.disk
	if err := hasRoom(files, o.dir); err != nil {
		return nil, err
	}
	if err := tidy(files, o.dir); err != nil { // a replica may have had the state before
		return nil, err
	}
	store := files.PathJoin(o.dir, storeName)
	var cause error
	if o.doomed == "" {
		o.doomed = unfit(files, store)
	}
	o.isNew.Store(o.doomed == "" && isUnused(files, o.dir))
	for fresh := false; ; fresh = true {
		if o.doomed != "" {
			if err := o.putAside(o.doomed, cause); err != nil {
				return nil, err
			}
			o.doomed = ""
		}
		d, err := openStore(files, store, *o.opts)
		if errors.Is(err, disk.ErrTaken) {
			return nil, unusable(&LockedError{Dir: o.dir})
		}
		if err == nil || fresh || disk.IsAtFault(err) {
			return d, err
		}
		if err := o.refuses(err); err != nil {
			return nil, err
		}
		o.doomed, cause = reason(err), err
	}
}

// openToRead opens the store on a disk that accepts no writes, because of cause. It marks an
// unusable store to be set aside later. The caller holds mu.
func (o *opener) openToRead(cause error) (*database, error) {
	store := o.opts.disk.PathJoin(o.dir, storeName)
	if _, err := o.opts.disk.Stat(store); err != nil {
		return nil, cause // there is no store, or the disk does not even answer
	}
	why := unfit(o.opts.disk, store)
	if why == "" {
		d, err := readStore(o.opts.disk, store, *o.opts, cause)
		switch {
		case err == nil:
			return d, nil
		case disk.IsAtFault(err):
			return nil, fmt.Errorf("%w; it cannot be read either: %w", cause, err)
		case errors.Is(err, errNothing), errors.Is(err, pebble.ErrDBDoesNotExist):
			return nil, cause
		}
		if err := o.refuses(err); err != nil {
			return nil, err
		}
		why = reason(err)
		o.opts.Logger.Error("the state is unusable: the daemon starts without it, "+
			"and sets it aside once the disk is writable",
			"dir", o.dir, "error", err.Error())
	}
	o.doomed = why
	return nil, fmt.Errorf("%w; its content is unusable", cause)
}

// refuses returns the error with which a start ends if err, from opening the store, forbids it. It
// returns nil if the store is to be set aside.
func (o *opener) refuses(err error) error {
	newer := new(VersionError)
	if !errors.As(err, &newer) {
		return nil
	}
	newer.Dir, newer.Writer = o.dir, writerOf(o.opts.disk, o.opts.disk.PathJoin(o.dir, storeName))
	if o.opts.SetAside { // then newer is logged
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
func (o *opener) putAside(why string, cause error) error {
	to, err := setAside(o.opts.disk, o.dir, why, o.opts.Clock.Now())
	if err != nil || to == "" {
		return err
	}
	attrs := []any{"setAside", to}
	if cause != nil {
		attrs = append(attrs, "error", cause.Error())
	}
	o.opts.Logger.Error(explanations[why], attrs...)
	o.listAside()
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

func (o *opener) listAside() {
	names, err := asideIn(o.opts.disk, o.dir)
	if err != nil {
		return // the list only serves people
	}
	var last time.Time
	if n := len(names); n > 0 {
		last = asideAt(names[n-1])
	}
	for i, name := range names {
		names[i] = o.opts.disk.PathJoin(o.dir, name)
	}
	o.listing.Lock()
	defer o.listing.Unlock()
	o.setAside, o.lastAside = names, last
}

// aside returns the paths of the stores that were set aside, the oldest first, and when the last of
// them was.
func (o *opener) aside() (paths []string, last time.Time) {
	o.listing.Lock()
	defer o.listing.Unlock()
	return append([]string(nil), o.setAside...), o.lastAside
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
