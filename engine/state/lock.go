package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// LockedError is that another process has the directory.
type LockedError struct {
	Dir string
	PID int // of that process; 0 if it cannot be told
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("state directory %s is in use by %s: stop it, or give this one another directory", e.Dir, who)
}

// lockDir takes dir for this process, until what it returns is closed or the process ends. The file remains: whoever
// removed it would let two processes lock two files.
func lockDir(dir string) (io.Closer, error) {
	name := filepath.Join(dir, "LOCK")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil && isDisk(err) {
		if there, cannot := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW, 0); cannot == nil {
			f, err = there, nil // a file that cannot be written can be locked
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
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:n]))) // only for the message
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			pid = 0 // of an earlier process: who has the lock could not write
		}
		return nil, &LockedError{Dir: dir, PID: pid}
	}
	// A disk that takes no writes is no reason not to have the lock. On a full one there is room where a number was before.
	n, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	if err != nil {
		n = 0
	}
	_ = f.Truncate(int64(n))
	return f, nil
}
