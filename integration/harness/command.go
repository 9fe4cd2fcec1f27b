package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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
