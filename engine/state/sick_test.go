package state

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// sickFS is a disk whose health the test controls. While it is sick, operations that change it fail
// or hang. While it is blind, reads fail.
type sickFS struct {
	vfs.FS
	mu      sync.Mutex
	healthy sync.Cond
	sick    func(op, name string) error // nil if healthy
	hangs   bool
	blind   error
	random  *rand.Rand
}

func newSickFS(fs vfs.FS) *sickFS {
	s := &sickFS{FS: fs, random: rand.New(rand.NewPCG(1, 1))}
	s.healthy.L = &s.mu
	return s
}

func (s *sickFS) fall(sick func(op, name string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sick = sick
}

func (s *sickFS) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = true
}

func (s *sickFS) goBlind(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blind = err
}

func (s *sickFS) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sick, s.hangs, s.blind = nil, false, nil
	s.healthy.Broadcast()
}

func failing(err error) func(string, string) error {
	return func(op, name string) error { return fmt.Errorf("%s %s: %w", op, name, err) }
}

func (s *sickFS) may(op, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.hangs {
		s.healthy.Wait()
	}
	if s.sick != nil {
		return s.sick(op, name)
	}
	return nil
}

func (s *sickFS) file(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &sickFile{f, s, name}, nil
}

func (s *sickFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := s.may("create", name); err != nil {
		return nil, err
	}
	f, err := s.FS.Create(name, c)
	return s.file(f, name, err)
}

func (s *sickFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	if err := s.may("create", name); err != nil {
		return nil, err
	}
	f, err := s.FS.OpenReadWrite(name, c, o...)
	return s.file(f, name, err)
}

func (s *sickFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	s.mu.Lock()
	err := s.blind
	s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return s.FS.Open(name, o...)
}

func (s *sickFS) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	return s.file(f, name, err)
}

func (s *sickFS) Remove(name string) error {
	if err := s.may("remove", name); err != nil {
		return err
	}
	return s.FS.Remove(name)
}

func (s *sickFS) RemoveAll(name string) error {
	if err := s.may("remove", name); err != nil {
		return err
	}
	return s.FS.RemoveAll(name)
}

func (s *sickFS) Rename(old, name string) error {
	if err := s.may("rename", old); err != nil {
		return err
	}
	return s.FS.Rename(old, name)
}

func (s *sickFS) MkdirAll(name string, mode os.FileMode) error {
	if info, err := s.FS.Stat(name); err == nil && info.IsDir() {
		return nil // there is no file to make
	}
	if err := s.may("mkdir", name); err != nil {
		return err
	}
	return s.FS.MkdirAll(name, mode)
}

func (s *sickFS) Unwrap() vfs.FS { return s.FS }

type sickFile struct {
	vfs.File
	fs   *sickFS
	name string
}

// WriteAt writes only a part where it fails.
func (f *sickFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.fs.may("write", f.name); err != nil {
		f.fs.mu.Lock()
		part := f.fs.random.IntN(len(p) + 1)
		f.fs.mu.Unlock()
		n, _ := f.File.WriteAt(p[:part], offset)
		return n, err
	}
	return f.File.WriteAt(p, offset)
}

func (f *sickFile) Write(p []byte) (int, error) {
	if err := f.fs.may("write", f.name); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *sickFile) Sync() error {
	if err := f.fs.may("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *sickFile) SyncData() error { return f.Sync() }
