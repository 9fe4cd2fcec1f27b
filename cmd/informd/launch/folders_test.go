package launch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/config"
)

// A daemon that is killed cannot remove its folder; the next one does, and touches nothing else.
func TestSweep(t *testing.T) {
	parent := passable(t)
	t.Setenv("XDG_RUNTIME_DIR", parent)
	t.Setenv("TMPDIR", parent)
	killed := func(mode fs.FileMode) string { // what is left of a daemon that was
		t.Helper()
		d, err := makeFolderIn(parent, mode)
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

	killed(0o700)
	killed(0o711)
	keep := map[string]bool{}
	name := func(n string) string { keep[n] = true; return n }

	rename(killed(0o700), name("other-1")) // not a name of ours
	open := killed(0o700)
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
		rename(killed(0o700), name("informd-theirs"))
		if err := os.Chown(filepath.Join(parent, "informd-theirs"), 12345, -1); err != nil {
			t.Fatal(err)
		}
	}
	first, err := NewFolders(nil, "v1") // lives
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewFolders(nil, "v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*folder{first.run, first.temp, second.run, second.temp} {
		name(filepath.Base(f.path))
	}
	if diff := cmp.Diff(keep, names(t, parent)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, inside := range []string{filepath.Join(parent, "other-1"), first.run.path, first.temp.path} {
		if len(names(t, inside)) == 0 {
			t.Errorf("%s was emptied", inside)
		}
	}
	first.Remove()
	second.Remove()
	for _, f := range []*folder{first.run, first.temp, second.run, second.temp} {
		delete(keep, filepath.Base(f.path))
	}
	if diff := cmp.Diff(keep, names(t, parent)); diff != "" {
		t.Errorf("after the end (-want +got)\n%s", diff)
	}
}

// passable is a folder that every user can get to.
// A parent of another user, who could replace what is in it, is passed over.
func TestOthersParents(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give something to another user")
	}
	theirs, ours := passable(t), passable(t)
	if err := os.Chown(theirs, 61_299, -1); err != nil {
		t.Fatal(err)
	}
	f, err := makeFolder("sockets", 0o700, theirs, ours)
	if err != nil {
		t.Fatal(err)
	}
	defer f.remove()
	if filepath.Dir(f.path) != ours {
		t.Errorf("it is %s, want it below %s", f.path, ours)
	}
	if _, err := makeFolder("sockets", 0o700, theirs); err == nil || !strings.Contains(err.Error(), theirs+" belongs to another user (61299)") {
		t.Error(err)
	}
	if left := names(t, theirs); len(left) > 0 {
		t.Errorf("it left %v there", left)
	}
}

func passable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "passable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
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

// If a handler runs as another user, others can pass through the directories but not list them, and
// no parent bars others. Without such a handler, the directories are closed to others.
func TestHandlersCanReachTheirDirectories(t *testing.T) {
	closed, open := passable(t), passable(t)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	within := filepath.Join(closed, "open")
	if err := os.Mkdir(within, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		mode    fs.FileMode
		parents []string
		want    string // the parent
	}{
		{"nobody else has to get there", 0o700, []string{closed, open}, closed},
		{"a closed one is passed over", 0o711, []string{closed, open}, open},
		{"so is what is below it", 0o711, []string{within, open}, open},
		{"one that is not there", 0o700, []string{filepath.Join(closed, "missing"), "", "relative", open}, open},
	} {
		f, err := makeFolder("sockets", c.mode, c.parents...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		info, err := os.Stat(f.path)
		if err != nil || filepath.Dir(f.path) != c.want || info.Mode().Perm() != c.mode {
			t.Errorf("%s: %s, %v, %v", c.name, f.path, info.Mode(), err)
		}
		f.remove()
	}
	t.Setenv("XDG_RUNTIME_DIR", closed)
	t.Setenv("TMPDIR", closed)
	for _, c := range []struct {
		user, want string
		mode       fs.FileMode
	}{{"", closed, 0o700}, {"nobody", "/tmp", 0o711}} {
		both, err := NewFolders([]config.Handler{{Name: "a"}, {Name: "b", User: c.user}}, "v1")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []*folder{both.run, both.temp} {
			info, err := os.Stat(f.path)
			if err != nil || filepath.Dir(f.path) != c.want || info.Mode().Perm() != c.mode {
				t.Errorf("user %q: %s, %v, %v", c.user, f.path, info.Mode(), err)
			}
		}
		both.Remove()
	}
	if _, err := makeFolder("sockets", 0o711, closed); err == nil || !strings.Contains(err.Error(), "set TMPDIR") {
		t.Errorf("where no folder will do: %v", err)
	}
	if _, err := makeFolder("sockets", 0o700, filepath.Join(closed, "missing")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("where none can be made: %v", err)
	}
}

// Sweep copes with anything that the handlers of a killed daemon made of their directories.
func TestSweepOfHostileDirectories(t *testing.T) {
	parent := t.TempDir()
	left, err := makeFolderIn(parent, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	// Deeper than a process may have files open.
	if err := os.MkdirAll(left.path+strings.Repeat("/d", 1500), 0o700); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(left.path, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "more"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	if err := left.lock.Close(); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	lower := limit
	lower.Cur = 1000
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }()

	sweep(parent)
	if left := names(t, parent); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// In a container with a read-only root, somebody forgot the volume at /tmp.
func TestNoFolder(t *testing.T) {
	const parent = "/proc/self/fdinfo" // nobody can make a folder there
	_, err := makeFolder("sockets", 0o700, parent, parent)
	if err == nil || strings.Count(err.Error(), parent) != 1 || !strings.Contains(err.Error(), "mount one at /tmp") {
		t.Errorf("%v: want the folder once, and what to do", err)
	}
}
