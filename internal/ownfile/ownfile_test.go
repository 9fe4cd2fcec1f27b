package ownfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// stranger is a user that runs no test.
const stranger = 61_299

// prepare puts what somebody else may have prepared at path, beside a victim.
var prepare = []struct {
	what  string
	needs string // root, if only root can prepare it
	make  func(path, victim string) error
	says  string
	new   bool // a new file replaces it
}{
	{"a link", "", func(path, victim string) error { return os.Symlink(victim, path) }, "is a symbolic link", false},
	{"a link to nothing", "", func(path, victim string) error { return os.Symlink(victim+"2", path) }, "is a symbolic link", false},
	{"a second name", "", func(path, victim string) error { return os.Link(victim, path) }, "has a second name", true},
	{"another user's file", "root", func(path, _ string) error {
		return errors.Join(os.WriteFile(path, []byte("theirs"), 0o666), os.Chown(path, stranger, stranger))
	}, "belongs to another user (61299)", true},
}

func TestOpenRefuses(t *testing.T) {
	for _, p := range prepare {
		t.Run(p.what, func(t *testing.T) {
			path, victim := scene(t, p.needs)
			if err := p.make(path, victim); err != nil {
				t.Fatal(err)
			}
			for _, flags := range []int{os.O_RDWR | os.O_APPEND, os.O_RDWR | os.O_CREATE} {
				file, err := Open(path, flags, 0o600)
				if err == nil {
					_ = file.Close()
				}
				if err == nil || !strings.Contains(err.Error(), p.says) {
					t.Errorf("flags %x: %v", flags, err)
				}
			}
			if _, err := Check(path); err == nil || !strings.Contains(err.Error(), p.says) {
				t.Errorf("Check: %v", err)
			}
			unharmed(t, victim)
		})
	}
}

// A replacement never writes into what was there.
func TestReplacementsLeaveWhatWasPrepared(t *testing.T) {
	for _, p := range prepare {
		t.Run(p.what, func(t *testing.T) {
			path, victim := scene(t, p.needs)
			if err := p.make(path, victim); err != nil {
				t.Fatal(err)
			}
			err := Write(path, []byte("ours"), 0o600)
			if p.new {
				info, there := os.Lstat(path)
				if err != nil || there != nil {
					t.Fatal(err, there)
				}
				if owner, foreign := Foreign(info); foreign {
					t.Errorf("it belongs to %d", owner)
				}
				if text, err := os.ReadFile(path); err != nil || string(text) != "ours" {
					t.Errorf("%q, %v", text, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), p.says) {
				t.Error(err)
			}
			unharmed(t, victim)
			names, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
			if err != nil || len(names) > 0 {
				t.Errorf("left: %q, %v", names, err)
			}
		})
	}
}

// scene returns a free path and the path of a file, in one folder.
func scene(t *testing.T, needs string) (path, victim string) {
	t.Helper()
	if needs == "root" && os.Geteuid() != 0 {
		t.Skip("only root can make another user's file")
	}
	dir := t.TempDir()
	victim = filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "path"), victim
}

func unharmed(t *testing.T, victim string) {
	t.Helper()
	info, err := os.Stat(victim)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("the victim has %q, %v", text, err)
	}
}

// What belongs to the user, or is nobody's, is opened and made as ever.
func TestOpen(t *testing.T) {
	path, _ := scene(t, "")
	if _, err := Check(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for range 2 {
		file, err := Open(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString("x"); err != nil {
			t.Error(err)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "xx" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := Check(path); err != nil {
		t.Error(err)
	}
	null, err := Open(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := null.Close(); err != nil {
		t.Error(err)
	}
}

// A FIFO has no reader: opening it fails at once instead of waiting for one.
func TestFIFOs(t *testing.T) {
	path, _ := scene(t, "")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, os.O_WRONLY, 0); !errors.Is(err, syscall.ENXIO) {
		t.Error(err)
	}
	if err := Write(path, nil, 0o600); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Error(err)
	}
}

// A new file has the mode of the one that it replaces, otherwise the mode that the caller passes.
func TestModes(t *testing.T) {
	path, victim := scene(t, "")
	if err := errors.Join(os.Chmod(victim, 0o640), Write(victim, []byte("x"), 0o600), Write(path, []byte("y"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{victim: 0o640, path: 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// Until Keep the old file is there, and after Discard still.
func TestDiscard(t *testing.T) {
	_, victim := scene(t, "")
	file, err := NewReplacement(victim, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.File.WriteString("ours"); err != nil {
		t.Error(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	unharmed(t, victim)
	file.Discard()
	unharmed(t, victim)
	if _, err := os.Stat(file.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
