package control

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/informd/informd/internal/socket"
)

// left leaves a socket without a listener.
func left(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyTheUserCanOpenTheSocket(t *testing.T) {
	previous := syscall.Umask(0) // the laxest there is
	defer syscall.Umask(previous)
	path := filepath.Join(shortDir(t), "control.sock")
	s, err := New(path, newBackend(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is still there")
	}
}

func TestExistingSocket(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "control.sock")
	left(t, path)
	s, err := New(path, newBackend(), Options{})
	if err != nil {
		t.Fatalf("a dead daemon's socket is in the way: %v", err)
	}
	if _, err := New(path, newBackend(), Options{}); err == nil || !strings.Contains(err.Error(), "another informd listens on "+path) {
		t.Errorf("a second daemon: %v", err)
	}

	// Whoever comes next has the path to itself.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	next, err := New(path, newBackend(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error("a daemon that ends removed the socket of its successor")
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnusableSocketPaths(t *testing.T) {
	dir := shortDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, path, want string }{
		{"a file", file, "is not a socket: remove it, or give another path with --control"},
		{"a folder", dir, "is not a socket"},
		{"a path that is too long", filepath.Join(dir, strings.Repeat("x", 108)), "give a shorter one with --control"},
		{"a folder that is not there", filepath.Join(dir, "no", "control.sock"), "no such file or directory"},
		{"below a file", filepath.Join(file, "control.sock"), "not a directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := New(test.path, newBackend(), Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if text, _ := os.ReadFile(file); string(text) != "mine" {
		t.Error("the file is not what it was")
	}
}

// A name that begins with @ would be an abstract socket, which everybody on the machine may open.
func TestNoAbstractSocket(t *testing.T) {
	t.Chdir(shortDir(t))
	s, err := New("@control", newBackend(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat("@control"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestLongestSocketPath(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, strings.Repeat("x", socket.MaxPath-len(dir)-1))
	s, err := New(path, newBackend(), Options{})
	if err != nil {
		t.Fatalf("%d bytes: %v", len(path), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
