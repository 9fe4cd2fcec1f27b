package timerslack

import (
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Raise makes the timer slack of the whole process half a millisecond. To that end it executes the
// program again, with the same arguments, environment, files and process id: what the process has
// done so far is lost. The processes that it starts have the same slack.
//
// It does nothing if the environment has INFORMD_TIMERSLACK, which it removes, or if the slack is
// not Linux's usual one: somebody has chosen it. It also does nothing where it cannot: on another
// system, or in a sandbox that forbids it.
func Raise() {
	if _, isSet := os.LookupEnv(variable); isSet {
		_ = os.Unsetenv(variable)
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	path, err := os.Executable()
	if err != nil || current() != usual || isPrivileged() {
		return
	}
	if set(slack); current() == slack {
		_ = syscall.Exec(path, os.Args, append(os.Environ(), variable+"=set"))
	}
	set(usual)
}

// isPrivileged reports whether this program's file gives it rights that the user who executed it
// does not have. Such a program must not execute what has its name by now.
func isPrivileged() bool {
	const secure = 23 // AT_SECURE of getauxval(3)
	auxv, err := unix.Auxv()
	return err != nil || slices.Contains(auxv, [2]uintptr{secure, 1})
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
