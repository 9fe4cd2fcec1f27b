// A state that no process uses is checked, and prepared for a Replica.

package state

import (
	"errors"
	"fmt"
	"io"

	"github.com/informd/informd/engine/state/disk"
)

// Check returns an error if the state in dir cannot be used: because it is damaged or missing, because
// another process uses it, a *[LockedError], or because a newer informd has written it, a
// *[VersionError]. Crashes in the state count only if o has CatchCrashes, which it otherwise ignores. It
// changes no record, and sets nothing aside.
func Check(dir string, o Options) error {
	o = o.withDefaults()
	lock, err := o.lock(dir)
	if err != nil {
		return err
	}
	return errors.Join(check(dir, o), lock.Close())
}

// check is Check in a directory that is locked.
func check(dir string, o Options) error {
	if err := tidy(o.disk, dir); err != nil {
		return err
	}
	store := o.disk.PathJoin(dir, storeName)
	if _, err := o.disk.Stat(store); err != nil {
		return err
	}
	why := unfit(o.disk, store)
	if why == unstartable && !o.CatchCrashes { // those that were killed count, too
		why = ""
	}
	if why != "" {
		return fmt.Errorf("%w: the next start would set it aside for the reason %q", errDamaged, why)
	}
	d, err := readStore(o.disk, store, o, errors.New("it is only checked"))
	if err == nil {
		_, err = generationOf(d)
		d.abandon()
	}
	return ofDir(dir, o, err)
}

// ofDir completes an error of a store in dir.
func ofDir(dir string, o Options, err error) error {
	if newer := new(VersionError); errors.As(err, &newer) {
		newer.Dir, newer.Writer = dir, writerOf(o.disk, o.disk.PathJoin(dir, storeName))
	}
	return err
}

// Settle prepares the state in dir for the [Replica] with which a group of replicas begins. First
// replay gives it the entries that a replica has agreed to and may not have applied. It is nil if there
// are none. Then the process enters a generation without replicas: see [Store.EnterGeneration]. When
// all is on disk and closed, found is called with that generation. No other process can use the state
// before found has returned. The errors are those of Check, before replay is called, or of the disk, of
// replay and of found. Whatever happens, Settle may be called again. A disk that is full or read-only is an
// error. If it becomes so later, or hangs, Settle waits.
func Settle(
	dir string, o Options, replay func(apply func(entry []byte) error) error, found func(Generation) error,
) (err error) {
	o = o.withDefaults()
	lock, err := o.lock(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	o.lock = func(string) (io.Closer, error) { return closing(func() {}), nil }
	if err := check(dir, o); err != nil {
		return err
	}
	if err := hasRoom(o.disk, dir); err != nil {
		return err
	}
	if replay != nil {
		if err := catchUp(dir, o, replay); err != nil {
			return ofDir(dir, o, err)
		}
	}
	g, err := enterAlone(dir, o)
	if err != nil {
		return ofDir(dir, o, err)
	}
	return found(g)
}

// catchUp applies the entries of replay. The caller has locked the directory.
func catchUp(dir string, o Options, replay func(apply func(entry []byte) error) error) (err error) {
	r := newReplica(dir, o)
	if r.lock, err = o.lock(dir); err != nil {
		return err
	}
	if err := r.resume(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := replay(r.write); err != nil {
		return err
	}
	return r.Sync()
}

// enterAlone moves everything into the database, and records the generation of a process without
// replicas. It leaves a log that a Replica can go on with. The caller has locked the directory.
func enterAlone(dir string, o Options) (g Generation, err error) {
	store := o.disk.PathJoin(dir, storeName)
	d, err := openStore(o.disk, store, o)
	if err != nil {
		return Generation{}, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	was, err := generationOf(d)
	if err != nil {
		return Generation{}, err
	}
	now := was.next("")
	if now != was {
		s := newStore(dir, o)
		s.db.Store(d)
		s.Begin()
		s.setNote(generationNote, now.encode())
		s.End()
		if err := s.append(d); err != nil {
			return Generation{}, err
		}
	}
	if _, err := d.log.Sync(); err != nil {
		return Generation{}, err
	}
	return now.Generation, disk.SyncDir(o.disk, dir)
}
