package confine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Killed processes get enough CPU to end: a thousandth of a core is too little for that.
func TestKillUnbinds(t *testing.T) {
	g := &group{dir: t.TempDir()}
	kill, cpu := filepath.Join(g.dir, "cgroup.kill"), filepath.Join(g.dir, "cpu.max")
	if err := errors.Join(os.WriteFile(kill, nil, 0o600), os.WriteFile(cpu, nil, 0o600), g.kill()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{kill: "1", cpu: "max"} {
		if got, err := os.ReadFile(path); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
}

// Whoever watches over the processes may have removed the group.
func TestKillGone(t *testing.T) {
	g := &group{dir: filepath.Join(t.TempDir(), "gone")}
	for name, kill := range map[string]func() error{"kill": g.kill, "killEach": g.killEach} {
		if err := kill(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Only the kernel's count of processes killed for memory matters; the other counters do not.
func TestOutOfMemory(t *testing.T) {
	for events, want := range map[string]bool{
		"low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n": true,
		"low 0\nhigh 9\nmax 12\noom 1\noom_kill 0\noom_group_kill 0\n": false,
		"": false,
	} {
		g := &group{dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(g.dir, "memory.events"), []byte(events), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := g.outOfMemory(); got != want {
			t.Errorf("%q: %v, want %v", events, got, want)
		}
	}
	if (&group{dir: filepath.Join(t.TempDir(), "gone")}).outOfMemory() || (*Confinement)(nil).OutOfMemory() {
		t.Error("nothing is known of a cgroup that is not there")
	}
}

// Of a daemon in another pid namespace, this one cannot see whether its process is alive. Its
// groups are kept while it has them open, and removed once it is gone.
func TestSweepOfAnotherNamespace(t *testing.T) {
	theirs, ours := &tree{dir: t.TempDir()}, &tree{}
	ours.dir = theirs.dir
	g, err := theirs.create("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(ours.dir, groupPrefix+"4194305-test-1") // no system has such a pid
	if err := os.Rename(g.dir, foreign); err != nil {
		t.Fatal(err)
	}
	ours.sweep()
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("the group of a daemon that lives was removed: %v", err)
	}
	if err := g.file.Close(); err != nil { // as the end of the daemon does
		t.Fatal(err)
	}
	ours.sweep()
	if _, err := os.Stat(foreign); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group of a daemon that is gone is still there: %v", err)
	}
}
