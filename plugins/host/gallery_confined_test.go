//go:build linux

package host_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/confine"
)

// rogueUser is a user who runs nothing but rogues: limits on processes count all processes of a
// user.
const rogueUser = "61234:61234"

// confinedRogues are contained by the shim, the temporary directory or limits.
func confinedRogues() []rogue {
	return []rogue{
		{does: "stops its parent", mode: "stops-parent", opts: impatient, acts: running},
		{does: "kills its parent", mode: "kills-parent", acts: restarts(2)},
		{does: "litters", mode: "litters", acts: restarts(3)},
		{does: "makes orphans", mode: "orphanage", acts: func(t *testing.T, s *scene) {
			s.waitFor(t, "many", func() bool { return s.results.answered() >= 100 })
			s.waitFor(t, "somebody to bury most of them", func() bool { return len(zombies()) < 20 })
		}},
		{does: "booby-traps its temporary directory", mode: "booby-traps", spec: func(t *testing.T, s *host.Spec) {
			precious := shortDir(t)
			if err := os.WriteFile(filepath.Join(precious, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := os.Stat(filepath.Join(precious, "file")); err != nil {
					t.Errorf("the trap went off: %v", err)
				}
			})
			s.Env = append(s.Env, "PRECIOUS="+precious)
		}, acts: running},
		{does: "fills its disk", mode: "fills-disk", needs: root, opts: smallDisk, acts: func(t *testing.T, s *scene) {
			s.waitFor(t, "a full disk", func() bool { return s.results.said("no space left on device") })
		}},
		{does: "opens every file", mode: "opens-files", spec: limits(confine.Limits{Files: 64}), acts: func(t *testing.T, s *scene) {
			s.waitFor(t, "the limit", func() bool { return s.results.said("too many open files") })
		}},
		{does: "allocates without end", mode: "allocates", spec: limits(confine.Limits{Memory: 1 << 30}), acts: func(t *testing.T, s *scene) {
			restarts(2)(t, s)
			s.waitFor(t, "the limit", func() bool { return s.results.said("no more memory") || s.results.said("SIGKILL") })
		}},
		{does: "is a fork bomb", mode: "fork-bomb", needs: root, spec: func(t *testing.T, s *host.Spec) {
			limits(confine.Limits{Processes: 200})(t, s)
			s.Confine.User, s.Path = rogueUser, publicBinary(t)
		}, acts: func(t *testing.T, s *scene) {
			s.waitFor(t, "the limit", func() bool { return len(descendants(os.Getpid())) >= 100 })
			if n := len(descendants(os.Getpid())); n > 220 {
				t.Errorf("%d processes; 200 are allowed", n)
			}
		}},
		{does: "kills all that it may", mode: "kills-all", needs: root, spec: func(t *testing.T, s *host.Spec) {
			s.Confine.User, s.Path = rogueUser, publicBinary(t)
		}, acts: restarts(3)},
	}
}

func limits(l confine.Limits) func(*testing.T, *host.Spec) {
	return func(_ *testing.T, s *host.Spec) { s.Confine.Limits = l }
}

func root(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system, and run a handler as another user")
	}
}

// smallDisk puts the rogue's temporary files on a file system of 16 MB.
func smallDisk(t *testing.T, o *host.Options) {
	if err := syscall.Mount("rogue", o.TempDir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skip("this root may not mount a file system: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(o.TempDir, 0); err != nil {
			t.Errorf("the file system is still in use: %v", err)
		}
	})
}

// zombies returns dead descendants that nobody has reaped.
func zombies() []int {
	return slices.DeleteFunc(descendants(os.Getpid()), func(pid int) bool { return state(pid) != "Z" })
}
