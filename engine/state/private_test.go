package state

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/informd/informd/engine/state/disk"
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

// No file of the state is written through a link, or into a file that has another name.
func TestPreparedFiles(t *testing.T) {
	for what, prepare := range map[string]func(victim, path string) error{
		"symbolic links": os.Symlink, "hard links": os.Link,
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			store := filepath.Join(dir, storeName)
			closed(t, open(t, dir, Options{}))
			victim := filepath.Join(t.TempDir(), "victim")
			if err := os.WriteFile(victim, []byte("precious"), 0o644); err != nil {
				t.Fatal(err)
			}
			names := []string{filepath.Join(store, "LOCK")}
			if what == "hard links" { // informd refuses to start on a symbolic link here
				names = append(names, filepath.Join(dir, "LOCK"))
			}
			for _, name := range names {
				if err := errors.Join(os.Remove(name), prepare(victim, name)); err != nil {
					t.Fatal(err)
				}
			}
			files := disk.Private{FS: vfs.Default}
			created, opened := filepath.Join(dir, "created"), filepath.Join(dir, "opened")
			if err := errors.Join(prepare(victim, created), os.Symlink(victim, opened)); err != nil {
				t.Fatal(err)
			}
			f, err := files.Create(created, vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if f, err := files.OpenReadWrite(opened, vfs.WriteCategoryUnspecified); err == nil {
				t.Errorf("it opens a link: %v", f.Close())
			}
			closed(t, open(t, dir, Options{}))
			info, err := os.Stat(victim)
			if err != nil || info.Mode().Perm() != 0o644 {
				t.Errorf("the victim has mode %v, %v", info.Mode(), err)
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
				t.Errorf("the victim has %q, %v", text, err)
			}
		})
	}
}

// A state directory of another user, or to which others can write, is worth a warning each.
func TestOthersDirectory(t *testing.T) {
	for _, c := range []struct {
		owner int
		mode  os.FileMode
		want  []string
	}{
		{os.Geteuid(), 0o700, nil},
		{os.Geteuid(), 0o770, []string{"other users can write to the state directory"}},
		{61_299, 0o755, []string{"the state directory belongs to another user", "owner=61299"}},
	} {
		if c.owner != os.Geteuid() && os.Geteuid() != 0 {
			continue // only root can make it
		}
		dir := t.TempDir()
		if err := errors.Join(os.Chown(dir, c.owner, -1), os.Chmod(dir, c.mode)); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		closed(t, open(t, dir, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		for _, want := range c.want {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%d, %v: the log does not say %q: %s", c.owner, c.mode, want, log.String())
			}
		}
		if c.want == nil && strings.Contains(log.String(), "level=WARN") {
			t.Errorf("a private directory: %s", log.String())
		}
	}
}
