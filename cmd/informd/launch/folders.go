// Package launch is how the handlers of a configuration are started: what is started for each, in which folders, and the
// command that serves a builtin one.
package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/informd/informd/config"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/shim"
)

// Folders are what a daemon makes for its handlers: one for their sockets, one for their temporary files. Each of them is
// locked as long as the daemon lives, so that what one that was killed left behind can be told from what is in use.
type Folders struct {
	run, temp *folder
	version   string
}

// NewFolders makes the folders, and removes those of daemons of the same user that are gone.
//
// Nobody else can look into them. But a handler that runs as another user has to get to its own folders in there: where one
// of these does, they can be passed through, and are where they can be reached. A $XDG_RUNTIME_DIR is closed to others.
func NewFolders(configured []config.Handler, version string) (*Folders, error) {
	mode := fs.FileMode(0o700)
	if OtherUsers(configured) {
		mode = 0o711
	}
	run, err := makeFolder("sockets", mode, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp")
	if err != nil {
		return nil, err
	}
	temp, err := makeFolder("temporary files", mode, os.TempDir(), "/tmp")
	if err != nil {
		run.remove()
		return nil, err
	}
	return &Folders{run, temp, version}, nil
}

// OtherUsers tells whether a handler is to run as another user.
func OtherUsers(handlers []config.Handler) bool {
	return slices.ContainsFunc(handlers, func(h config.Handler) bool { return h.User != "" })
}

// Options are those of a handler whose folders are in these.
func (f *Folders) Options(log *slog.Logger) host.Options {
	return host.Options{Logger: log, RunDir: f.run.path, TempDir: f.temp.path, Version: f.version}
}

// Remove removes them.
func (f *Folders) Remove() {
	f.run.remove()
	f.temp.remove()
}

// folder is a folder with a lock file in it.
type folder struct {
	path string
	lock *os.File // nil where the file system knows no locks; then the folder is never swept
}

const (
	folderNames = "informd-*" // a socket's path may have at most 108 bytes: this is short
	folderLock  = "lock"
)

// makeFolder makes a folder in the first of parents that will do, for what the handlers have of that kind.
func makeFolder(kind string, mode fs.FileMode, parents ...string) (*folder, error) {
	var failures []error
	for _, parent := range parents {
		if !filepath.IsAbs(parent) || mode&0o001 != 0 && !openToAll(parent) {
			continue
		}
		sweep(parent)
		f, err := makeFolderIn(parent, mode)
		if err == nil {
			return f, nil
		}
		failures = append(failures, err)
	}
	if len(failures) == 0 {
		return nil, fmt.Errorf("no place for the handlers' %s: every user has to be able to pass through it, as handlers may run as any; set TMPDIR to a folder below which that is so", kind)
	}
	return nil, fmt.Errorf("make a folder for the handlers' %s: %w", kind, errors.Join(failures...))
}

// openToAll tells whether every user can pass through a folder and those above it.
func openToAll(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	for ; err == nil; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
	}
	return false
}

func makeFolderIn(parent string, mode fs.FileMode) (*folder, error) {
	path, err := os.MkdirTemp(parent, folderNames)
	if err != nil {
		return nil, err
	}
	f := &folder{path: filepath.Clean(path)}
	// The file comes to its name locked: another daemon, which sweeps, never sees it otherwise.
	file, err := os.CreateTemp(path, folderLock+"-")
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	if flock(file) && os.Rename(file.Name(), filepath.Join(path, folderLock)) == nil {
		f.lock = file
	} else {
		_ = file.Close()
	}
	return f, nil
}

// remove removes the folder. It is empty in the end, but for a handler that failed or had no time.
func (f *folder) remove() {
	_ = shim.RemoveAll(f.path)
	if f.lock != nil {
		_ = f.lock.Close()
	}
}

// sweep removes the folders below parent that are certainly this user's, made by makeFolderIn, and in use no more. What it
// cannot look at or remove it leaves: it is not what the daemon is there for.
func sweep(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, folderNames))
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || !ours(info) {
			continue
		}
		file, err := os.OpenFile(filepath.Join(path, folderLock), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if flock(file) {
			_ = shim.RemoveAll(path)
		}
		_ = file.Close()
	}
}

// ours tells whether a folder is this user's and nobody else can have put anything into it.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&^0o011 == 0o700
}

// flock locks a file until it is closed, by the end of the process at the latest. It does not wait.
func flock(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
