package steps

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// place is the directory of shared memory: a file system without a disk.
const place = "/dev/shm"

// share maps the memory of a state directory. end unmaps nothing, so a late step does no harm. If
// isOver, it removes the file.
func share(stateDir string) (memory []byte, end func(isOver bool), err error) {
	var of unix.Statfs_t
	if err := unix.Statfs(place, &of); err != nil {
		return nil, nil, fmt.Errorf("cannot look at %s: %w", place, err)
	}
	if of.Type != unix.TMPFS_MAGIC {
		return nil, nil, fmt.Errorf("%s is on a disk", place)
	}
	sweep()
	path, err := pathOf(stateDir)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // the mapping stays
	if err := prepare(f, stateDir); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	memory, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot map %s: %w", path, err)
	}
	return memory, func(isOver bool) {
		if isOver {
			_ = os.Remove(path)
		}
	}, nil
}

// prefix begins the names of files of this user.
func prefix() string { return fmt.Sprintf("informd-%d-", os.Geteuid()) }

// pathOf returns the path of the file of a state directory. Another directory that takes its place
// has another file.
func pathOf(stateDir string) (string, error) {
	var is unix.Stat_t
	if err := unix.Stat(stateDir, &is); err != nil {
		return "", fmt.Errorf("cannot look at %s: %w", stateDir, err)
	}
	number := Number(fmt.Sprintf("%s %d %d", stateDir, is.Dev, is.Ino))
	return filepath.Join(place, fmt.Sprintf("%s%016x", prefix(), number)), nil
}

// prepare gives the file its full size, and empties it if it is not of this format. All of it has
// memory then: nothing fails later.
func prepare(f *os.File, stateDir string) error {
	var is unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &is); err != nil {
		return err
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG || int(is.Uid) != os.Geteuid() || is.Mode&0o077 != 0 {
		return errors.New("it is no file that only this user can use: remove it")
	}
	head := make([]byte, headSize)
	n := copy(head, format)
	copy(head[n:headSize-1], stateDir)
	was := make([]byte, headSize)
	if _, err := f.ReadAt(was, 0); err == nil && is.Size == size && bytes.Equal(was, head) {
		return unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(append(head, make([]byte, size-headSize)...), 0)
	return err
}

// sweep removes this user's files of state directories that are gone. A process that was killed
// leaves its file.
func sweep() {
	names, _ := filepath.Glob(filepath.Join(place, prefix()+"*"))
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		head := make([]byte, headSize)
		_, err = f.ReadAt(head, 0)
		_ = f.Close()
		path, isOurs := strings.CutPrefix(string(bytes.TrimRight(head, "\x00")), format)
		if err != nil || !isOurs || !filepath.IsAbs(path) {
			continue
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			_ = os.Remove(name)
		}
	}
}
