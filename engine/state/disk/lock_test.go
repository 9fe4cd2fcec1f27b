package disk

import (
	"errors"
	"syscall"
	"testing"
)

// A process that is being started has copies of all open files, for a moment. The lock of a state
// that has been closed does not last until they are closed, too.
func TestLockEndsWhenItIsClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	held, isFile := lock.(dirLock)
	if !isFile {
		t.Fatalf("a lock is a %T", lock)
	}
	inherited, err := syscall.Dup(int(held.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	if other, err := Lock(dir); !errors.As(err, new(*LockedError)) {
		t.Fatalf("locked twice: %v, %v", other, err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}
