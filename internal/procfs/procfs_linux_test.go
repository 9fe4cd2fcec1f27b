package procfs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	self, err := Self()
	if err != nil || self.PID != os.Getpid() || self.Parent != os.Getppid() || self.HasEnded() ||
		self.Resident < 1<<20 || self.Born == 0 {
		t.Errorf("got %+v, %v", self, err)
	}
	if again, err := Read(os.Getpid()); err != nil || again.Born != self.Born || again.PID != self.PID {
		t.Errorf("got %+v, %v", again, err)
	}
	if _, err := Read(1<<22 + 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that cannot be: %v", err)
	}
}

// A process and its name, which looks like the fields behind it.
func TestChild(t *testing.T) {
	self := os.Getpid()
	name := filepath.Join(t.TempDir(), "x) R 1 (")
	if err := os.Symlink("/bin/sleep", name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	pid := cmd.Process.Pid
	is := func(p Process) bool { return p.PID == pid && p.Parent == self && !p.HasEnded() }
	if p, err := Read(pid); err != nil || !is(p) {
		t.Errorf("got %+v, %v", p, err)
	}
	if all := Below(self); !slices.ContainsFunc(all, is) {
		t.Errorf("%d is not among %v", pid, all)
	}
	if listed, isListed := Children(self); isListed && !slices.Contains(listed, pid) {
		t.Errorf("%d is not among %v", pid, listed)
	}
	_ = cmd.Process.Kill()
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if p, err := Read(pid); err != nil || !p.HasEnded() {
		t.Errorf("once it has ended: %+v, %v", p, err)
	}
}
