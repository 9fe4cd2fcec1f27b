package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxSocketPath is what fits into a sockaddr_un on Linux, without the final NUL; macOS has four
// less.
const maxSocketPath = 103

// dir is a locked data folder.
type dir struct {
	root string // absolute
	lock *os.File
}

// openDir makes root if necessary and takes its lock. It refuses a folder with somebody else's
// files in it, so that a slip of the command line does not change the mode of a home folder.
func openDir(root string) (*dir, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	d := &dir{root: root}
	if n := len(d.path("etcd.sock")); n > maxSocketPath {
		return nil, fmt.Errorf("%s is too long a name: "+
			"a socket's path has at most %d bytes and etcd's would have %d",
			root, maxSocketPath, n)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(d.path("lock")); errors.Is(err, fs.ErrNotExist) && len(entries) > 0 {
		return nil, fmt.Errorf("%s holds other files; name a new or empty folder", root)
	}
	if err := os.Chmod(root, 0o700); err != nil {
		return nil, err
	}
	d.lock, err = os.OpenFile(d.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		d.lock.Close()
		return nil, fmt.Errorf("%s is in use by another controlplane", root)
	case err != nil:
		d.lock.Close()
		return nil, fmt.Errorf("lock %s: %w", d.lock.Name(), err)
	}
	return d, nil
}

// close gives up the lock. The file stays: removing it would let two instances lock two files of
// one name.
func (d *dir) close() { d.lock.Close() }

func (d *dir) path(elem ...string) string {
	return filepath.Join(append([]string{d.root}, elem...)...)
}

func (d *dir) openLog() (*os.File, error) {
	return os.OpenFile(d.path("controlplane.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// write replaces a file of the folder as a whole: a reader, or a run after kill -9, finds the old
// or the new content.
func (d *dir) write(name string, content []byte) error {
	next := d.path(name + ".new")
	if err := os.WriteFile(next, content, 0o600); err != nil {
		return err
	}
	return os.Rename(next, d.path(name))
}
