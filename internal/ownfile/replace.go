package ownfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// Replacement is a file that takes the place of another one, or of nothing, at once and as a whole.
// It is written beside its place under a name that nobody can guess.
type Replacement struct {
	*os.File
	path string
	kept bool // it has its place
}

// NewReplacement makes a new file for a path. It has mode, less the umask. The error is about the
// place if there is something that no file may replace: a link, a folder, a device, a pipe. The
// caller calls Keep or Discard, and closes the file.
func NewReplacement(path string, mode fs.FileMode) (*Replacement, error) {
	if err := replaceable(path); err != nil {
		return nil, err
	}
	const attempts = 100
	for range attempts {
		name := filepath.Join(filepath.Dir(path),
			".informd-"+strconv.FormatUint(rand.Uint64(), 36))
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			if e, ok := errors.AsType[*fs.PathError](err); ok {
				e.Path = path // nobody knows the other name
			}
			return nil, err
		}
		return &Replacement{File: file, path: path}, nil
	}
	return nil, fmt.Errorf("no name for a file in %s is free", filepath.Dir(path))
}

func replaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return linkError(path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file: give another path", path)
	}
	return nil
}

// Keep puts the file in its place. It is safe to write on.
func (r *Replacement) Keep() error {
	if err := os.Rename(r.Name(), r.path); err != nil {
		return err
	}
	r.kept = true
	return nil
}

// Discard removes the file, unless it has its place.
func (r *Replacement) Discard() {
	if !r.kept {
		_ = os.Remove(r.Name())
	}
}

// Write replaces the file at a path by one with this content, or makes it. A file of this user that
// was there gives its mode to the new one. Otherwise that is mode, less the umask.
func Write(path string, content []byte, mode fs.FileMode) error {
	file, err := NewReplacement(path, mode)
	if err != nil {
		return err
	}
	defer file.Discard()
	if old, err := Check(path); err == nil && old.Mode().IsRegular() {
		if err := file.Chmod(old.Mode().Perm()); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	_, err = file.File.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return file.Keep()
}
