package log

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/informd/informd/internal/ownfile"
)

// StdoutEnv names the environment variable with the number of a descriptor: the daemon's standard
// output. The handler's own standard output belongs to the protocol.
const StdoutEnv = "INFORMD_STDOUT_FD"

// standardOutput opens the daemon's standard output, whose descriptor StdoutEnv names. Without
// StdoutEnv it fails: another host than informd started the process, and nobody reads what a
// handler writes to its own standard output.
func standardOutput() (*os.File, error) {
	text, ok := os.LookupEnv(StdoutEnv)
	if !ok {
		return nil, fmt.Errorf("path: required, because whoever started this handler "+
			"passes on no standard output (%s is not set), as informd does", StdoutEnv)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n < 3 {
		return nil, fmt.Errorf("%s must be the number of an inherited descriptor, 3 or more",
			StdoutEnv)
	}
	fd := int(n)
	syscall.CloseOnExec(fd)
	// This output owns the duplicate, and closes it without harm to others.
	syscall.ForkLock.RLock()
	dup, err := syscall.Dup(fd)
	if err == nil {
		syscall.CloseOnExec(dup)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("the daemon's standard output (descriptor %d) is not open: %w",
			fd, err)
	}
	return os.NewFile(uintptr(dup), "standard output"), nil
}

// flags allow reading for the last byte only. O_NONBLOCK keeps open(2) from waiting for a FIFO or a
// device, and changes nothing for a file.
const flags = os.O_RDWR | os.O_APPEND | syscall.O_NONBLOCK

// open opens the file at path for appending, and creates it if it does not exist. It refuses a link
// and another user's file. torn reports that the file ends within a line, as it does when its last
// writer was killed.
func open(path string) (file *os.File, torn bool, err error) {
	file, err = ownfile.Open(path, flags|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	info, err := file.Stat()
	if err == nil {
		err = checkKind(path, info)
	}
	if err != nil {
		_ = file.Close()
		return nil, false, err
	}
	return file, info.Mode().IsRegular() && isTorn(file), nil
}

// isTorn reports whether a file ends within a line. While another process writes a line, the file
// does so, too, for a moment. So isTorn looks again until the file has stopped growing. A search for
// data waits for the write(2) that is under way, where the file system is a local one of Linux.
func isTorn(file *os.File) bool {
	const looks, pause, searchData = 100, time.Millisecond, 3 // SEEK_DATA
	before := int64(-1)
	for range looks {
		info, err := file.Stat()
		if err != nil || info.Size() == 0 {
			return false
		}
		var last [1]byte
		if n, _ := file.ReadAt(last[:], info.Size()-1); n != 1 || last[0] == '\n' {
			return false
		}
		if info.Size() == before {
			return true
		}
		before = info.Size()
		_, _ = file.Seek(0, searchData) // all writes append: the position means nothing
		time.Sleep(pause)
	}
	return true
}

// isRegular reports whether file is a regular file.
func isRegular(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// isAt reports whether path still leads to file.
func isAt(file *os.File, path string) bool {
	there, err := os.Lstat(path) // reopen refuses a link
	if err != nil {
		return false
	}
	here, err := file.Stat()
	return err == nil && os.SameFile(here, there)
}

// checkPath returns the error that open would return. It leaves no new file behind.
func checkPath(path string) error {
	info, err := ownfile.Check(path)
	if errors.Is(err, fs.ErrNotExist) {
		return checkFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if err := checkKind(path, info); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	file, err := ownfile.Open(path, flags, 0)
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	return file.Close()
}

func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("path: the folder %s does not exist, create it first", dir)
	case err != nil:
		return fmt.Errorf("path: %w", err)
	case !info.IsDir():
		return fmt.Errorf("path: %s is not a folder", dir)
	}
	// access(2) knows nothing of sandboxes.
	file, err := os.CreateTemp(dir, ".informd-*")
	if err == nil {
		err = errors.Join(file.Close(), os.Remove(file.Name()))
	}
	if err != nil {
		return fmt.Errorf("path: no file can be created in %s: %w", dir, cause(err))
	}
	return nil
}

// cause returns err without its operation and path, which the message around it names.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// checkKind accepts files and character devices (/dev/null). Opening a pipe or a socket could hang,
// and what is in it is lost with its reader.
func checkKind(path string, info fs.FileInfo) error {
	if mode := info.Mode(); !mode.IsRegular() && mode&fs.ModeCharDevice == 0 {
		return fmt.Errorf("%s is no regular file; for the daemon's standard output leave path out",
			path)
	}
	return nil
}
