package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A daemon that is killed cannot remove its folder; the next one does, and touches nothing else.
func TestSweep(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", parent)
	killed := func() string { // what is left of a daemon that was
		t.Helper()
		d, err := makeRunDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d.path, "plugin1"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.lock.Close(); err != nil {
			t.Fatal(err)
		}
		return d.path
	}
	rename := func(path, name string) {
		t.Helper()
		if err := os.Rename(path, filepath.Join(parent, name)); err != nil {
			t.Fatal(err)
		}
	}

	killed()
	killed()
	keep := map[string]bool{}
	name := func(n string) string { keep[n] = true; return n }

	rename(killed(), name("other-1")) // not a name of ours
	open := killed()
	rename(open, name("informd-open")) // others may have put something into it
	if err := os.Chmod(filepath.Join(parent, "informd-open"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(parent, name("informd-mine")), 0o700); err != nil { // without a lock: somebody's own
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, name("informd-file")), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(parent, "other-1"), filepath.Join(parent, name("informd-link"))); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // only root can give something to another user
		rename(killed(), name("informd-theirs"))
		if err := os.Chown(filepath.Join(parent, "informd-theirs"), 12345, -1); err != nil {
			t.Fatal(err)
		}
	}
	first, err := newRunDir() // lives
	if err != nil {
		t.Fatal(err)
	}
	second, err := newRunDir()
	if err != nil {
		t.Fatal(err)
	}
	name(filepath.Base(first.path))
	name(filepath.Base(second.path))
	if diff := cmp.Diff(keep, names(t, parent)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, inside := range []string{filepath.Join(parent, "other-1"), first.path} {
		if len(names(t, inside)) == 0 {
			t.Errorf("%s was emptied", inside)
		}
	}
	first.remove()
	second.remove()
	delete(keep, filepath.Base(first.path))
	delete(keep, filepath.Base(second.path))
	if diff := cmp.Diff(keep, names(t, parent)); diff != "" {
		t.Errorf("after the end (-want +got)\n%s", diff)
	}
}

func names(t *testing.T, dir string) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, e := range entries {
		got[e.Name()] = true
	}
	return got
}
