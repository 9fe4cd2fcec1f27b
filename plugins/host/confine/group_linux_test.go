package confine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What is killed is let run to its end: one thousandth of a core is too little for that.
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
