// Package ownfile opens and replaces files where other users of the machine may have put something
// first: a link to a file that they want to be overwritten, or a file of their own that they can
// read. It guarantees that what informd writes goes to a file at that very path, which belongs to
// informd's user or to root. It trusts the folders above that path, and the links among them.
package ownfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Open is os.OpenFile for a file that is written. It follows no link in the last part of the path,
// and does not wait for the other end of a FIFO. A regular file of another user than this process's
// and root, or with a second name, is an error, too. O_TRUNC would come too early: flags must not
// have it.
func Open(path string, flags int, mode fs.FileMode) (*os.File, error) {
	file, err := os.OpenFile(path,
		flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_NOCTTY, mode)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EMLINK) { // EMLINK: FreeBSD
		return nil, linkError(path)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = check(path, info)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// Check returns what is at a path, and why Open would refuse it. It opens nothing. The error wraps
// fs.ErrNotExist if there is nothing.
func Check(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	return info, check(path, info)
}

func check(path string, info fs.FileInfo) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		return linkError(path)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	if owner, foreign := Foreign(info); foreign {
		return fmt.Errorf("%s belongs to another user (%d), who can read and change it: "+
			"give another path, or make it your own (chown)", path, owner)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		return fmt.Errorf("%s has a second name, a hard link, under which others may know it: "+
			"give another path, or replace it by a copy", path)
	}
	return nil
}

func linkError(path string) error {
	return fmt.Errorf("%s is a symbolic link, which somebody else may have put there: "+
		"give the path that it leads to", path)
}

// Foreign reports whether a file or folder belongs to another user than this process's and root.
func Foreign(info fs.FileInfo) (owner int, foreign bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	owner = int(stat.Uid)
	return owner, owner != os.Geteuid() && owner != 0
}
