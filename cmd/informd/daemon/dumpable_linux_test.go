package daemon

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestUndumpable(t *testing.T) {
	before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(before), 0, 0, 0); err != nil {
			t.Error(err)
		}
	}()
	if err := undumpable(); err != nil {
		t.Fatal(err)
	}
	if is, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || is != 0 {
		t.Errorf("dumpable is %d, %v", is, err)
	}
}
