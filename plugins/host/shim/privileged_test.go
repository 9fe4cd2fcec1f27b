package shim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A program whose file gives it rights starts nothing, and says why.
func TestPrivileged(t *testing.T) {
	if os.Getenv("TEST_PRIVILEGED") != "" {
		p, err := Start(Order{Path: "/bin/true", Args: Texts([]string{"true"})}, []*os.File{os.Stdin, os.Stdout, os.Stderr}, nil, 10*time.Second)
		if err == nil {
			p.Wait()
		}
		fmt.Println("privileged:", errors.Is(err, errPrivileged), err)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a file that gives rights")
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]bool{0o755: false, 0o755 | os.ModeSetuid: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "-test.run=TestPrivileged")
		cmd.Dir, cmd.Env = "/", []string{"TEST_PRIVILEGED=1", "GORACE=atexit_sleep_ms=0"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), fmt.Sprint("privileged: ", want)) {
			t.Errorf("%v: got %q, %v", mode, out, err)
		}
	}
}
