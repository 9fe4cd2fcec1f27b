// An open Pebble with its log: options, reads that are bounded in time, closing.

package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/disk"
	"github.com/informd/informd/engine/state/log"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/engine/state/risk"
)

// storeName is the name of Pebble's directory within ours.
const storeName = "store"

// database is an open Pebble with its logs. Pebble has no log of its own.
type database struct {
	pebble       *pebble.DB
	dir          string
	fs           *disk.Patient
	dictionaries *dictionaries
	fail         *failure
	compacts     *risk.Compactions
	limits       limits
	format       storeFormat

	log      *log.Log // nil if the database is only read
	isShared bool     // it is that of a Replica: other processes have the same log
	writer   writer   // only the goroutine that appends uses it
	full     fullLogs // that the store has to get
	view     *view    // of a database that is only read: with the content of its logs

	wroteBefore string // the version of informd that wrote it before it was opened; "" if unknown

	written  bool  // something was written before it was opened
	readOnly error // why it is open for reading only; nil if it can be written
	trace    trace // if it is open for reading only

	reading chan struct{} // one slot per read
	mu      sync.RWMutex  // held for reading during each read; guards the fields below
	closed  bool
}

// maxReads bounds concurrent reads, including those that a failing disk never ends.
const maxReads = 8

var (
	errDamaged = errors.New("the state is damaged")
	errClosed  = errors.New("the state is closed")
)

// damage turns a panic of Pebble, or anything else that a sound store never yields, into an error.
func damage(what any) error { return fmt.Errorf("%w: %v", errDamaged, what) }

// failure holds the message with which an open Pebble says that it cannot go on.
type failure struct {
	logger *slog.Logger

	mu  sync.Mutex
	err error
}

func (f *failure) report(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *failure) reported() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *failure) Infof(string, ...any) {}

func (f *failure) Errorf(format string, args ...any) {
	f.logger.Debug("the store's database reports an error", "error", fmt.Sprintf(format, args...))
}

// Fatalf must not return, and a goroutine of Pebble that holds locks cannot be ended, so Fatalf
// blocks forever. With disk.Patient below, this happens only if a file is removed under Pebble, or
// to a database that was given up.
func (f *failure) Fatalf(format string, args ...any) {
	f.report(damage(fmt.Sprintf(format, args...)))
	select {}
}

// pebbleFormat is the format of Pebble's files. It is not pebble.FormatNewest, so that updating the
// Pebble module alone does not make files that an earlier informd cannot read.
const pebbleFormat = pebble.FormatValueSeparation

// openPebble opens or makes the database, or opens it for reading without writing to the disk. For
// a damaged database it returns an error for which disk.IsAtFault returns false.
func openPebble(files vfs.FS, dir string, readOnly bool, o Options) (d *database, err error) {
	fail := &failure{logger: o.Logger}
	patient := disk.NewPatient(files, o.limits.pause)
	if readOnly {
		patient = disk.NewReading(files)
	}
	defer func() {
		if what := recover(); what != nil {
			patient.End()
			d, err = nil, damage(what)
		}
	}()
	compacts := risk.NewCompactions(files, dir)
	options := &pebble.Options{
		FS:                          patient,
		ReadOnly:                    readOnly,
		FormatMajorVersion:          pebbleFormat,
		DisableWAL:                  true,
		Logger:                      fail,
		CacheSize:                   8 << 20,
		MemTableSize:                o.limits.memory,
		MemTableStopWritesThreshold: 3,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       16,
		LBaseMaxBytes:               32 << 20,
		MaxOpenFiles:                128,
		FlushDelayDeleteRange:       10 * time.Second,
		FlushSplitBytes:             4 << 20,
		BytesPerSync:                64 << 20,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		EventListener: &pebble.EventListener{
			DataCorruption:  func(i pebble.DataCorruptionInfo) { fail.report(damage(i.Details)) },
			BackgroundError: fail.background,
			CompactionBegin: func(pebble.CompactionInfo) { compacts.Began() },
			CompactionEnd:   func(pebble.CompactionInfo) { compacts.Ended() },
		},
	}
	options.Experimental.FileCacheShards = 1
	options.Experimental.ReadSamplingMultiplier = -1
	// Objects are packed already, with dictionaries, which is both smaller and cheaper to load.
	options.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return compression })
	for i := range options.TargetFileSizes {
		options.TargetFileSizes[i] = 8 << 20
	}
	db, err := pebble.Open(dir, options)
	if err != nil {
		patient.End()
		return nil, err
	}
	d = &database{
		pebble: db, dir: dir, fs: patient, dictionaries: newDictionaries(), fail: fail,
		compacts: compacts,
		limits:   o.limits, full: fullLogs{next: make(chan *fullLog, 1)},
		reading: make(chan struct{}, maxReads),
	}
	if o.replica != nil {
		d.isShared, d.log = true, o.replica.log.Load()
		o.replica.current.Store(d)
	}
	return d, nil
}

var compression = pebble.DBCompressionNone

func (f *failure) background(err error) {
	if pebble.IsCorruptionError(err) {
		f.report(damage(err))
	}
}

// read calls f with the database and waits for it, at most for limit. After an error f may still be
// running, so f must not change anything that the caller reads.
func (d *database) read(limit time.Duration, f func(pebble.Reader) error) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case d.reading <- struct{}{}:
	case <-timer.C:
		return disk.ErrHangs
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-d.reading }()
		done <- d.locked(f)
	}()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return disk.ErrHangs
	}
}

func (d *database) locked(f func(pebble.Reader) error) (err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return errClosed
	}
	defer func() {
		if what := recover(); what != nil {
			err = damage(what)
		}
	}()
	if err = d.fail.reported(); err == nil {
		err = f(d.reader())
	}
	return err
}

// reader returns what the store holds.
func (d *database) reader() pebble.Reader {
	if d.view != nil {
		return d.view
	}
	return d.pebble
}

// view is a store together with the content of its logs, in memory. It implements pebble.Reader.
// Any number of goroutines may read it.
type view struct {
	mu    sync.Mutex // guards batch, which making an iterator may change; a leaf
	batch *pebble.Batch
}

func (v *view) Get(key []byte) (value []byte, closer io.Closer, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.batch.Get(key)
}

func (v *view) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.batch.NewIter(o)
}

func (v *view) NewIterWithContext(
	ctx context.Context, o *pebble.IterOptions,
) (*pebble.Iterator, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.batch.NewIterWithContext(ctx, o)
}

// Close does nothing, as for a reader that somebody else closes: see database.close.
func (*view) Close() error { return nil }

// scan calls f with each key that begins with prefix, from start on, until f returns false. Key and
// value belong to Pebble and are valid until f returns.
func scan(
	db pebble.Reader, prefix, start []byte,
	f func(key []byte, it *pebble.Iterator) (more bool, err error),
) (err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: records.After(prefix)})
	if err != nil {
		return err
	}
	defer func() {
		if closing := it.Close(); err == nil {
			err = closing
		}
	}()
	for ok := it.SeekGE(start); ok; ok = it.Next() {
		if more, err := f(it.Key(), it); err != nil || !more {
			return err
		}
	}
	return it.Error()
}

// get reads one value. ok is false if there is none.
func get(db pebble.Reader, key []byte) (value []byte, ok bool, err error) {
	value, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	value = bytes.Clone(value)
	return value, true, closer.Close()
}

// close waits for reads to end and closes the database.
func (d *database) close() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	defer func() {
		d.fs.End()
		if what := recover(); what != nil {
			err = damage(what)
		}
	}()
	if d.log != nil && !d.isShared {
		err = errors.Join(err, d.log.Close())
	}
	if d.view != nil {
		err = errors.Join(err, d.view.batch.Close())
	}
	if kept := d.full.kept; kept != nil {
		err = errors.Join(err, kept.content.Close())
	}
	err = errors.Join(err, d.pebble.Close())
	d.compacts.Wait()
	return err
}

// abandon closes a database in any condition, and waits at most a second. After that the database
// touches no file.
func (d *database) abandon() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.close() // the database is given up anyway
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
		d.fs.End()
	}
}
