package socket

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The mode does not depend on the umask, and the file outlives the listener.
func TestListen(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	previous := syscall.Umask(0)
	defer syscall.Umask(previous)
	path := filepath.Join(dir, "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil {
		t.Error("a second listener on the same path: want an error")
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("after Close: %v, %v", info, err)
	}
}
