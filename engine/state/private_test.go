package state

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	closed(t, open(t, dir, Options{}))
	// as another tool may have left it
	if err := os.Chmod(filepath.Join(dir, storeName, "LOCK"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{})
	s.recorded(func() { s.PutRule(RuleMemory{Name: "r"}) })
	if err := s.flush(s.db.Load()); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Load().pebble.Flush(); err != nil {
		t.Fatal(err)
	}
	defer closed(t, s)
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// No file ever has another mode, not even while it is being made.
func TestModesFromTheStart(t *testing.T) {
	disk := privateFS{watchedFS{vfs.Default, t}}
	dir := t.TempDir()
	for name, make := range map[string]func(name string) (io.Closer, error){
		"create": func(name string) (io.Closer, error) { return disk.Create(name, vfs.WriteCategoryUnspecified) },
		"open":   func(name string) (io.Closer, error) { return disk.OpenReadWrite(name, vfs.WriteCategoryUnspecified) },
		"lock":   func(name string) (io.Closer, error) { return disk.Lock(name) },
	} {
		for _, before := range []bool{false, true} {
			path := filepath.Join(dir, fmt.Sprint(name, before))
			if before {
				if err := os.WriteFile(path, []byte("text"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			f, err := make(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(path); err != nil || (len(text) > 0) != (before && name == "open") {
				t.Errorf("%s of a file that was there %v: %q, %v", name, before, text, err)
			}
		}
	}
}

// watchedFS fails the test unless each file that Pebble makes already exists with mode 0600.
type watchedFS struct {
	vfs.FS
	t *testing.T
}

func (w watchedFS) look(name string) {
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		w.t.Errorf("%s is made: %v, %v", name, info, err)
	}
}

func (w watchedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	w.look(name)
	return w.FS.OpenReadWrite(name, c, o...)
}

func (w watchedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	w.look(name)
	return w.FS.Create(name, c)
}

func (w watchedFS) Lock(name string) (io.Closer, error) {
	w.look(name)
	return w.FS.Lock(name)
}
