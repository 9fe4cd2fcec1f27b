// The lock of a directory.

package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/informd/informd/internal/ownfile"
)

// LockedError means that another process uses the directory.
type LockedError struct {
	Dir string
	PID int // of that process; 0 if unknown
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("state directory %s is in use by %s: "+
		"stop it, or give this one another directory", e.Dir, who)
}

// Lock locks dir for this process until the returned Closer is closed or the process ends. The
// file stays: if it were removed, two processes could lock two different files.
func Lock(dir string) (io.Closer, error) {
	name := filepath.Join(dir, "LOCK")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil && IsAtFault(err) {
		if there, cannot := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW, 0); cannot == nil {
			f, err = there, nil // a file that cannot be written can still be locked
		}
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		text := make([]byte, 32)
		n, _ := f.ReadAt(text, 0)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:n]))) // it only serves the message
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			pid = 0 // written by an earlier process: the holder of the lock could not write
		}
		return nil, &LockedError{Dir: dir, PID: pid}
	}
	if _, err := ownfile.Check(name); err != nil {
		return dirLock{f}, nil // the lock holds, but what is in the file is somebody else's
	}
	// Keep the lock even if the disk accepts no writes. On a full disk the number fits where one
	// was before.
	n, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	if err != nil {
		n = 0
	}
	_ = f.Truncate(int64(n))
	return dirLock{f}, nil
}

// A dirLock is a file that holds a lock.
type dirLock struct{ file *os.File }

// Close implements io.Closer. A process that is being started has a copy of every open file until its
// program begins, and would keep the lock for so long: closing the file is not enough.
func (l dirLock) Close() error {
	unlocked := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	return errors.Join(unlocked, l.file.Close())
}
