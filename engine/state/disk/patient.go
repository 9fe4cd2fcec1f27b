// The file system that repeats what fails, and files that do not believe a sync after a failed one.

package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Patient is the disk as Pebble sees it. Pebble ends the process when it cannot write its log or
// its manifest. So Patient repeats a failed operation that changes the disk, if the reason may
// pass, until it succeeds. A disk that is full, read-only or failing then only looks slow.
// Operations that only read fail at once.
// After End, Patient does nothing and returns fs.ErrClosed.
type Patient struct {
	vfs.FS
	pause time.Duration // the first one before an operation is repeated
	once  bool          // never repeats
	ended atomic.Bool
	// Tempo is that of those who move logs, and write tables.
	Tempo Tempo

	mu      sync.Mutex
	waiting int   // operations that have failed and are being repeated
	failed  error // the latest failure of one of them
}

var _ vfs.FS = (*Patient)(nil)

// NewPatient returns the patient view of a disk. pause is the first pause before a failed operation
// is repeated. It doubles, up to a second.
func NewPatient(files vfs.FS, pause time.Duration) *Patient {
	return &Patient{FS: files, pause: pause}
}

// NewReading returns a view of a disk that is only read: what would change it fails at once.
func NewReading(files vfs.FS) *Patient { return &Patient{FS: ReadOnly{files}, once: true} }

// End makes the view do nothing from now on: see Patient. An operation that is being repeated
// ends, too. One that hangs in the operating system does not.
func (p *Patient) End() { p.ended.Store(true) }

// lasts reports whether err is final: repeating the operation would not change it.
func lasts(err error) bool {
	return err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) ||
		errors.Is(err, fs.ErrClosed) || errors.Is(err, errors.ErrUnsupported) ||
		errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EINVAL) ||
		errors.Is(err, syscall.ENAMETOOLONG)
}

// Insist repeats try until it succeeds or its error lasts. It has no other end, so a caller that
// does not want to wait must leave the goroutine behind.
func (p *Patient) Insist(what string, try func() error) error {
	guarded := func() error {
		if p.ended.Load() {
			return fmt.Errorf("%s: %w", what, fs.ErrClosed)
		}
		return try()
	}
	err := guarded()
	if p.once || lasts(err) {
		return err
	}
	p.mu.Lock()
	p.waiting++
	p.mu.Unlock()
	for pause := p.pause; !lasts(err); pause = min(2*pause, time.Second) {
		p.mu.Lock()
		p.failed = fmt.Errorf("cannot %s: %w", what, bare(err))
		p.mu.Unlock()
		time.Sleep(pause)
		err = guarded()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting--; p.waiting == 0 {
		p.failed = nil
	}
	return err
}

// bare returns an error of the operating system without file names.
func bare(err error) error {
	if path := new(fs.PathError); errors.As(err, &path) {
		return path.Err
	}
	if link := new(os.LinkError); errors.As(err, &link) {
		return link.Err
	}
	return err
}

// Trouble returns why operations are being repeated, or nil.
func (p *Patient) Trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// file does what insist does for an operation that returns a file to write to.
func (p *Patient) file(what, name string, open func() (vfs.File, error)) (f vfs.File, err error) {
	err = p.Insist(what+" "+name, func() error {
		opened, err := open()
		if err == nil {
			file := &patientFile{File: opened, fs: p, name: name}
			if filepath.Ext(name) == ".sst" {
				file.pause = NewBreath(&p.Tempo)
			}
			f = file
		}
		return err
	})
	return f, err
}

func (p *Patient) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.file("create", name, func() (vfs.File, error) { return p.FS.Create(name, c) })
}

func (p *Patient) OpenReadWrite(
	name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption,
) (vfs.File, error) {
	return p.file("open", name, func() (vfs.File, error) {
		return p.FS.OpenReadWrite(name, c, o...)
	})
}

// Continue opens a file of files to write on from an offset. What it has there is overwritten.
func Continue(files vfs.FS, name string, at int64) (vfs.File, error) {
	f, err := files.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if patient, ok := f.(*patientFile); ok {
		patient.synced = at
		return f, nil
	}
	return &continued{File: f, at: at}, nil
}

// continued is a file that is written from an offset on. One goroutine writes.
type continued struct {
	vfs.File
	at int64
}

// Write implements vfs.File.
func (f *continued) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.at)
	f.at += int64(n)
	return n, err
}

func (p *Patient) OpenDir(name string) (vfs.File, error) {
	return p.file("open", name, func() (vfs.File, error) { return p.FS.OpenDir(name) })
}

// ReuseForWrite does not reuse the file, because a failed attempt may already have renamed it.
func (p *Patient) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := p.Remove(old); err != nil {
		return nil, err
	}
	return p.Create(name, c)
}

func (p *Patient) Link(old, name string) error {
	return p.Insist("link "+name, func() error { return p.FS.Link(old, name) })
}

func (p *Patient) Rename(old, name string) error {
	return p.Insist("rename "+old, func() error { return p.FS.Rename(old, name) })
}

func (p *Patient) Remove(name string) error {
	return p.Insist("remove "+name, func() error { return p.FS.Remove(name) })
}

func (p *Patient) RemoveAll(name string) error {
	return p.Insist("remove "+name, func() error { return p.FS.RemoveAll(name) })
}

func (p *Patient) MkdirAll(name string, mode os.FileMode) error {
	return p.Insist("make "+name, func() error { return p.FS.MkdirAll(name, mode) })
}

func (p *Patient) Unwrap() vfs.FS { return p.FS }

// patientFile is a directory, or a file that is written from its beginning to its end.
// After a failed sync Linux considers the pages clean: another sync succeeds although the bytes are
// lost. So patientFile keeps the bytes written since the last successful sync, and writes them
// again before the next attempt. That is at most 16 MiB and one cut: Pebble syncs each file at its
// end, and the Store appends no further cut to a log while more than that waits for a sync. The
// entries of a directory belong to the file system, which journals them.
//
// A write does not wait for a sync, except while a failed sync writes bytes again.
type patientFile struct {
	vfs.File
	fs    *Patient
	name  string
	pause *Breath // of a table; one goroutine at a time writes it

	syncing sync.Mutex // held during a sync; before mu

	mu      sync.Mutex // guards the fields below
	synced  int64      // everything before this offset is on disk
	pending unsynced   // written after synced
}

func (f *patientFile) Write(p []byte) (int, error) {
	f.pause.Take()
	f.mu.Lock()
	defer f.mu.Unlock()
	from := f.pending.length
	f.pending.add(p)
	err := f.fs.Insist("write "+f.name, func() (err error) {
		from, err = f.pending.write(from, f.writeAt) // continues where it failed
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *patientFile) writeAt(p []byte, offset int64) (n int, err error) {
	if n, err = f.File.WriteAt(p, f.synced+offset); err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return max(n, 0), err
}

func (f *patientFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *patientFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *patientFile) sync(sync func() error) error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	f.mu.Lock()
	length := f.pending.length
	f.mu.Unlock()
	failed := false
	err := f.fs.Insist("sync "+f.name, func() (err error) {
		if failed {
			if length, err = f.rewrite(); err != nil {
				return err
			}
		}
		err = sync()
		failed = failed || err != nil
		return err
	})
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.synced += length
		f.pending.drop(length)
	}
	return err
}

// rewrite writes everything again that is not synced, and returns its length.
func (f *patientFile) rewrite() (length int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err = f.pending.write(0, f.writeAt)
	return f.pending.length, err
}

// SyncTo does nothing and promises nothing. The kernel would report a failure to this call alone,
// and the next Sync would succeed.
func (f *patientFile) SyncTo(int64) (bool, error) { return false, nil }

// Close is not repeated. Everything that Pebble relies on was synced before.
func (f *patientFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending.forget()
	return f.File.Close()
}

// Preallocate does nothing. It would only save some file systems work.
func (f *patientFile) Preallocate(int64, int64) error { return nil }
