package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// patientFS is what Pebble sees of a disk. Pebble ends the process when it cannot write its log or its manifest; here an
// operation that changes something, and fails for a reason that may pass, is not over until it succeeds. To those above, a
// disk that is full, read-only or failing is thus a slow one. What only reads fails as it fails.
//
// A patientFS that was ended does nothing any more, and says that it is closed.
type patientFS struct {
	vfs.FS
	pause time.Duration // before an operation is tried again: at first, then longer, up to a second
	once  bool          // nothing is tried again
	ended atomic.Bool

	mu      sync.Mutex
	waiting int   // operations that failed and are tried again
	failed  error // the last failure of one of them
}

var _ vfs.FS = (*patientFS)(nil)

// lasts tells whether err is an answer: waiting would not change it.
func lasts(err error) bool {
	return err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrClosed) ||
		errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EINVAL) ||
		errors.Is(err, syscall.ENAMETOOLONG)
}

// insist tries until it works. It has no other end: who does not want to wait leaves the goroutine behind.
func (p *patientFS) insist(what string, try func() error) error {
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
		p.failed = fmt.Errorf("%s: %w", what, bare(err))
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

// bare is an error of the operating system's without the names in it.
func bare(err error) error {
	if path := new(fs.PathError); errors.As(err, &path) {
		return path.Err
	}
	if link := new(os.LinkError); errors.As(err, &link) {
		return link.Err
	}
	return err
}

// trouble is why something waits, nil if nothing does.
func (p *patientFS) trouble() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// file is insist for what gives a file to write to.
func (p *patientFS) file(what, name string, open func() (vfs.File, error)) (f vfs.File, err error) {
	err = p.insist(what+" "+name, func() error {
		opened, err := open()
		if err == nil {
			f = &patientFile{File: opened, fs: p, name: name}
		}
		return err
	})
	return f, err
}

func (p *patientFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return p.file("create", name, func() (vfs.File, error) { return p.FS.Create(name, c) })
}

func (p *patientFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return p.file("open", name, func() (vfs.File, error) { return p.FS.OpenReadWrite(name, c, o...) })
}

func (p *patientFS) OpenDir(name string) (vfs.File, error) {
	return p.file("open", name, func() (vfs.File, error) { return p.FS.OpenDir(name) })
}

// ReuseForWrite may have renamed the file before it failed, so it does not reuse.
func (p *patientFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := p.Remove(old); err != nil {
		return nil, err
	}
	return p.Create(name, c)
}

func (p *patientFS) Link(old, name string) error {
	return p.insist("link "+name, func() error { return p.FS.Link(old, name) })
}

func (p *patientFS) Rename(old, name string) error {
	return p.insist("rename "+old, func() error { return p.FS.Rename(old, name) })
}

func (p *patientFS) Remove(name string) error {
	return p.insist("remove "+name, func() error { return p.FS.Remove(name) })
}

func (p *patientFS) RemoveAll(name string) error {
	return p.insist("remove "+name, func() error { return p.FS.RemoveAll(name) })
}

func (p *patientFS) MkdirAll(name string, mode os.FileMode) error {
	return p.insist("make "+name, func() error { return p.FS.MkdirAll(name, mode) })
}

func (p *patientFS) Unwrap() vfs.FS { return p.FS }

// patientFile is a file that is written from its beginning to its end, or a directory.
//
// After a failed sync Linux takes the pages for clean: another sync succeeds, and the bytes are nowhere. So what was written
// since the last sync that succeeded is held here, 16 MiB and a little at most, as Pebble syncs each file and each batch at
// its end, and written again where it belongs before the next attempt. (Of a directory nothing can be written again; its
// entries are the file system's own, which journals them.)
type patientFile struct {
	vfs.File
	fs   *patientFS
	name string

	mu      sync.Mutex // Pebble may sync while it writes
	synced  int64      // everything before is on the disk
	pending unsynced   // written behind synced
}

func (f *patientFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := f.pending.length
	f.pending.add(p)
	err := f.fs.insist("write "+f.name, func() (err error) {
		from, err = f.pending.write(from, f.writeAt) // goes on where it failed
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
	f.mu.Lock()
	defer f.mu.Unlock()
	failed := false
	err := f.fs.insist("sync "+f.name, func() error {
		if failed {
			if _, err := f.pending.write(0, f.writeAt); err != nil {
				return err
			}
		}
		err := sync()
		failed = failed || err != nil
		return err
	})
	if err == nil {
		f.synced += f.pending.length
		f.pending.forget()
	}
	return err
}

// SyncTo promises nothing, and does nothing: a failure that it met would be told to it alone.
func (f *patientFile) SyncTo(int64) (bool, error) { return false, nil }

// Close cannot be tried again. What Pebble relies on was synced before.
func (f *patientFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending.forget()
	return f.File.Close()
}

// Preallocate only saves file systems some work.
func (f *patientFile) Preallocate(int64, int64) error { return nil }
