// Package launch turns handler manifests into what package host starts: the specification of each
// process, the folders that processes use, and the command that serves a builtin handler.
package launch

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/informd/informd/config"
	"github.com/informd/informd/internal/ownfile"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/host/shim"
)

// Folders are the two folders that a daemon makes for its handlers: one for sockets, one for
// temporary files. The daemon holds a lock in each of them while it lives, so that other daemons
// can remove the folders of a daemon that was killed.
type Folders struct {
	run, temp *folder
	isOpen    bool   // other users can pass through
	version   string // of informd
}

// NewFolders makes the folders, and removes those that dead daemons of the same user left. The
// caller must call Remove.
//
// No other user can list the folders. If a handler runs as another user, that user can pass through
// them to the handler's own folders. Then they are not below $XDG_RUNTIME_DIR, which is closed to
// other users.
func NewFolders(configured []config.Handler, version string) (*Folders, error) {
	mode := fs.FileMode(0o700)
	isOpen := slices.ContainsFunc(configured, hasUser)
	if isOpen {
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
	return &Folders{run, temp, isOpen, version}, nil
}

// Admit reports whether the users of all these handlers can reach the handlers' own folders.
func (f *Folders) Admit(handlers ...config.Handler) bool {
	return f.isOpen || !slices.ContainsFunc(handlers, hasUser)
}

// hasUser reports whether a handler runs as a user of its own.
func hasUser(h config.Handler) bool { return h.User != "" }

// Options returns the host's options for a handler that uses the folders. A nil log discards.
func (f *Folders) Options(log *slog.Logger) host.Options {
	return host.Options{Logger: log, RunDir: f.run.path, TempDir: f.temp.path, Version: f.version}
}

// Remove removes the folders and releases their locks.
func (f *Folders) Remove() {
	f.run.remove()
	f.temp.remove()
}

// folder is a folder that holds a lock file.
type folder struct {
	path string
	lock *os.File // nil if the file system has no locks: then no daemon ever sweeps the folder
}

const (
	folderNames = "informd-*" // short, as a socket's path may have at most 107 bytes
	folderLock  = "lock"
)

// makeFolder makes a folder in the first of the parents that allows it. It passes over a parent of
// another user, who could put another folder in the place of this one. With a mode that lets other
// users through, every user must be able to reach the parent. The kind is for errors.
func makeFolder(kind string, mode fs.FileMode, parents ...string) (*folder, error) {
	var failures []string
	for i, parent := range parents {
		if !filepath.IsAbs(parent) || slices.Contains(parents[:i], parent) ||
			mode&0o001 != 0 && !openToAll(parent) {
			continue
		}
		if info, err := os.Stat(parent); err == nil {
			if owner, foreign := ownfile.Foreign(info); foreign {
				failures = append(failures,
					fmt.Sprintf("%s belongs to another user (%d)", parent, owner))
				continue
			}
		}
		sweep(parent)
		f, err := makeFolderIn(parent, mode)
		if err == nil {
			return f, nil
		}
		failures = append(failures, err.Error())
	}
	if len(failures) == 0 {
		return nil, fmt.Errorf("no place for the handlers' %s: a handler has a user of its own, "+
			"who cannot reach any of the usual folders; "+
			"set TMPDIR to a folder that every user can reach", kind)
	}
	return nil, fmt.Errorf("no place for the handlers' %s: %s; "+
		"set TMPDIR to a folder that informd can write to, or mount one at /tmp",
		kind, strings.Join(failures, "; "))
}

// openToAll reports whether every user can pass through a folder and all folders above it.
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
	// The file gets its name when it is locked: a daemon that sweeps never sees it unlocked.
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

// remove removes the folder, with what is left of handlers that failed or ran out of time.
func (f *folder) remove() {
	_ = shim.RemoveAll(f.path)
	if f.lock != nil {
		_ = f.lock.Close()
	}
}

// sweep removes folders below parent that makeFolderIn made for this user and that no daemon uses
// any more. It ignores errors: a folder that it cannot remove does not stop a daemon.
func sweep(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, folderNames))
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || !ours(info) {
			continue
		}
		const flags = os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
		file, err := os.OpenFile(filepath.Join(path, folderLock), flags, 0)
		if err != nil {
			continue
		}
		if flock(file) {
			_ = shim.RemoveAll(path)
		}
		_ = file.Close()
	}
}

// ours reports whether this user owns the folder and nobody else can have put anything into it.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&^0o011 == 0o700
}

// flock reports whether it could lock the file. The lock ends when the file is closed. flock does
// not wait.
func flock(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
