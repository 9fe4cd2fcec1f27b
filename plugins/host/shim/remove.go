package shim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
)

// RemoveAll removes a directory and everything in it, whatever a handler made of it: directories
// without permissions, directories nested deeper than a process may have files open, and more names
// than memory should hold. It follows no symbolic link. A directory that does not exist is no
// error.
func RemoveAll(path string) error {
	was, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !was.IsDir(): // the handler may have replaced it
		return os.Remove(path)
	}
	root, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrPermission) {
		// root may open any directory, so this is the handler's own user.
		if err = os.Chmod(path, 0o700); err == nil {
			root, err = os.OpenRoot(path)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if now, err := root.Stat("."); err != nil || !os.SameFile(was, now) {
		_ = root.Close()
		return fmt.Errorf("%s was replaced while it was being removed", path)
	}
	defer func() { _ = root.Close() }()
	if err := root.Chmod(".", 0o700); err != nil {
		return err
	}
	for {
		removed, err := removeEach(root, ".")
		if err == nil && removed == 0 {
			return os.Remove(path)
		}
		if removed == 0 {
			return err
		}
	}
}

// removeEach removes at most a batch of the entries of a directory, and returns how many. It does
// not descend into a directory in it: it moves that to the top of root, where RemoveAll finds it.
func removeEach(root *os.Root, dir string) (removed int, first error) {
	d, err := root.Open(dir)
	if err != nil {
		return 0, err
	}
	entries, err := d.ReadDir(batch)
	_ = d.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	for _, e := range entries {
		name := dir + "/" + e.Name()
		var err error
		switch {
		case !e.IsDir():
			err = root.Remove(name)
		case dir == ".":
			err = removeDir(root, name)
		default:
			_ = root.Chmod(name, 0o700) // only a writable directory can be moved
			err = root.Rename(name, strconv.FormatUint(rand.Uint64(), 36))
		}
		if err == nil {
			removed++
		} else if first == nil {
			first = err
		}
	}
	return removed, first
}

// removeDir removes a directory at the top of root.
func removeDir(root *os.Root, name string) error {
	if err := root.Chmod(name, 0o700); err != nil {
		return err
	}
	for {
		removed, err := removeEach(root, name)
		if err == nil && removed == 0 {
			return root.Remove(name)
		}
		if removed == 0 {
			return err
		}
	}
}

// batch bounds the names of a directory that are held in memory.
const batch = 1024
