package timerslack

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// usual is what Linux gives a process unless somebody has chosen another slack.
const usual = 50 * time.Microsecond

// Raise makes the timer slack of the whole process a millisecond. To that end it executes the
// program again, with the same arguments, environment, files and process id: what the process has
// done so far is lost. The processes that it starts have the same slack.
//
// It does nothing if the slack is not Linux's usual one, because somebody has chosen it, or Raise
// has set it. It also does nothing where it cannot: on another system, or in a sandbox that
// forbids it.
func Raise() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if current() != usual {
		return
	}
	path, err := os.Executable()
	if err != nil {
		return
	}
	if set(slack); current() != slack { // a program that did not see it would execute itself for ever
		return
	}
	_ = syscall.Exec(path, os.Args, os.Environ())
	set(usual)
}

// current returns the slack of this thread, or a negative value if the kernel does not tell.
func current() time.Duration {
	n, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return -1
	}
	return time.Duration(n)
}

func set(slack time.Duration) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
}
