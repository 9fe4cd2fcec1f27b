package peer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestParents(t *testing.T) {
	self := os.Getpid()
	if parent, ok := parentOf(self); !ok || parent != os.Getppid() {
		t.Errorf("the parent is %d, %v", parent, ok)
	}
	if is, err := descendant(self, self); err != nil || is {
		t.Errorf("of itself: %v, %v", is, err)
	}
	if is, err := descendant(self, os.Getppid()); err != nil || !is {
		t.Errorf("of its parent: %v, %v", is, err)
	}
	if is, err := descendant(0, self); err != nil || is {
		t.Errorf("from outside the PID namespace: %v, %v", is, err)
	}
	if _, err := descendant(1<<22+1, self); err == nil {
		t.Error("a process that cannot be")
	}

	// A name that looks like the fields behind it.
	name := filepath.Join(t.TempDir(), "x) R 1 (")
	if err := os.Symlink("/bin/sleep", name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	if parent, ok := parentOf(cmd.Process.Pid); !ok || parent != self {
		t.Errorf("the parent of %q is %d, %v, want %d", fmt.Sprint(name), parent, ok, self)
	}
}
