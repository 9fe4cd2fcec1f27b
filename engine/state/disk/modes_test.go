package disk

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// No file ever has another mode, not even while it is being made.
func TestModesFromTheStart(t *testing.T) {
	files := Private{watchedFS{vfs.Default, t}}
	dir := t.TempDir()
	for name, make := range map[string]func(name string) (io.Closer, error){
		"create": func(name string) (io.Closer, error) { return files.Create(name, vfs.WriteCategoryUnspecified) },
		"open":   func(name string) (io.Closer, error) { return files.OpenReadWrite(name, vfs.WriteCategoryUnspecified) },
		"lock":   func(name string) (io.Closer, error) { return files.Lock(name) },
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
