package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/informd/informd/integration/address"
)

// Informd runs a command of informd to its end.
func Informd(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return RunCommand(t, Binary, args...)
}

// RunCommand runs a program to its end.
func RunCommand(t testing.TB, program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

// WriteProgram writes a file that is to be executed. The kernel executes no file that somebody may
// still write to, and another test's child process inherits the open file for a moment. So no
// process starts meanwhile.
func WriteProgram(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func WriteFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ShortDir makes a temporary folder with a path short enough for a socket in it. t.TempDir's path
// contains the test's name.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "informd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// FreeAddress returns an address on which nobody listens, and on which nobody but this test will.
func FreeAddress(t testing.TB) string {
	t.Helper()
	a, err := address.Next()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// InFolder returns the names in a folder.
func InFolder(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
