package shim

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A process becomes a shim if argv[0] begins with title and the environment has variable, whose
// value is ROLE:FD. The shim reads its order from descriptor FD, the connection to the process that
// started it. The handler inherits the descriptors below FD.
const (
	title    = "informd-shim: " // followed by the handler's name; ps shows it
	variable = "INFORMD_SHIM"

	roleSupervise = "supervise"
	roleEnter     = "enter" // the process that confines itself and then executes the handler
)

// installed is set by TakeOver. Start refuses to execute a program that would not become a shim.
var installed bool

// TakeOver turns this process into a shim if Start executed it as one, and does not return then.
// Otherwise it returns at once, and Start may be used from then on.
//
// It must be called before the program starts goroutines or reads its arguments: from an init
// function, as package install does, or as the first statement of main or TestMain.
func TakeOver() {
	installed = true
	if len(os.Args) == 0 || !strings.HasPrefix(os.Args[0], title) || privileged() {
		return
	}
	role, number, ok := strings.Cut(os.Getenv(variable), ":")
	if !ok {
		return
	}
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return
	}
	// The thread must not end: the kernel kills a child when the thread that created it ends, and
	// it confines each thread by itself.
	runtime.LockOSThread()
	// The shim's memory holds the handler's environment: no process of the same user may read it.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if keepDescriptors() != nil {
		exit(2)
	}
	control := os.NewFile(uintptr(fd), "control")
	switch role {
	case roleSupervise:
		supervise(control, fd)
	case roleEnter:
		enter(control, fd)
	}
	exit(2)
}

// keepDescriptors marks every descriptor from 3 on as close-on-exec, so that the handler inherits
// neither the connection nor a descriptor that a library of the daemon failed to mark.
func keepDescriptors() error {
	err := unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	open, err := os.ReadDir("/proc/self/fd") // Linux before 5.11, or it is hidden
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= 3 {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

// privileged reports whether this program's file gives it rights that the user who executed it does
// not have (set-user-ID, set-group-ID or capabilities). Such a program must not start others on
// request.
func privileged() bool {
	const secure = 23 // AT_SECURE of getauxval(3)
	auxv, err := unix.Auxv()
	return err != nil || slices.Contains(auxv, [2]uintptr{secure, 1})
}

// exit ends the process at once. It skips what packages registered for an orderly exit.
func exit(code int) { syscall.Exit(code) }

// self returns the path, arguments and environment that start this binary again in a role.
func self(name, role string, control int) (path string, argv, env []string) {
	env = []string{fmt.Sprintf("%s=%s:%d", variable, role, control)}
	return "/proc/self/exe", []string{title + name}, env
}
