package executable

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Nobody can change the copy that is executed, not even a process that has it open, such as a
// script's interpreter.
func TestCopyIsSealed(t *testing.T) {
	content := []byte("#!/bin/sh\nexit 0\n")
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, content, 0o700); err != nil {
		t.Fatal(err)
	}
	exe, err := Open(t.Context(), path, fmt.Sprintf("%x", sha256.Sum256(content)))
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	if _, err := exe.File.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it is open for writing")
	}
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", exe.File.Fd()), os.O_RDWR, 0)
	if err != nil {
		return // so much the better
	}
	defer func() { _ = again.Close() }()
	for what, change := range map[string]func() error{
		"written":      func() error { _, err := again.WriteAt([]byte("x"), 0); return err },
		"shortened":    func() error { return again.Truncate(1) },
		"lengthened":   func() error { return again.Truncate(1 << 10) },
		"sealed again": func() error { _, err := unix.FcntlInt(again.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL); return err },
	} {
		if err := change(); !errors.Is(err, unix.EPERM) {
			t.Errorf("it can be %s: %v", what, err)
		}
	}
	if got, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", exe.File.Fd())); err != nil || string(got) != string(content) {
		t.Errorf("it has %q, %v", got, err)
	}
}
