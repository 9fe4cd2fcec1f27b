package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// runDir is the folder for the handlers' sockets, which nobody else may enter. A file in it is locked as long as the
// daemon lives, so that what one that was killed left behind can be told from what is in use.
type runDir struct {
	path string
	lock *os.File // nil where the file system knows no locks; then the folder is never swept
}

const (
	runDirs = "informd-*" // a socket's path may have at most 108 bytes: this is short
	runLock = "lock"
)

// newRunDir makes a folder, and removes those of daemons of the same user that are gone.
func newRunDir() (*runDir, error) {
	parent := os.Getenv("XDG_RUNTIME_DIR")
	if info, err := os.Stat(parent); parent == "" || err != nil || !info.IsDir() {
		parent = os.TempDir()
	}
	sweep(parent)
	return makeRunDir(parent)
}

func makeRunDir(parent string) (*runDir, error) {
	path, err := os.MkdirTemp(parent, runDirs)
	if err != nil {
		return nil, fmt.Errorf("make a folder for the handlers' sockets: %w", err)
	}
	dir := &runDir{path: filepath.Clean(path)}
	// The file comes to its name locked: another daemon, which sweeps, never sees it otherwise.
	file, err := os.CreateTemp(path, runLock+"-")
	if err != nil {
		dir.remove()
		return nil, fmt.Errorf("lock the folder for the handlers' sockets: %w", err)
	}
	if flock(file) && os.Rename(file.Name(), filepath.Join(path, runLock)) == nil {
		dir.lock = file
	} else {
		_ = file.Close()
	}
	return dir, nil
}

// remove removes the folder. It is empty in the end, but for a handler that failed or had no time.
func (d *runDir) remove() {
	_ = os.RemoveAll(d.path)
	if d.lock != nil {
		_ = d.lock.Close()
	}
}

// sweep removes the folders below parent that are certainly this user's, made by makeRunDir, and in use no more. What it
// cannot look at or remove it leaves: it is not what the daemon is there for.
func sweep(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, runDirs))
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || !ours(info) {
			continue
		}
		file, err := os.OpenFile(filepath.Join(path, runLock), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if flock(file) {
			_ = os.RemoveAll(path)
		}
		_ = file.Close()
	}
}

// ours tells whether a folder is this user's and closed to others.
func ours(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm() == 0o700
}

// flock locks a file until it is closed, by the end of the process at the latest. It does not wait.
func flock(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
