package shim

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A process becomes a shim by its name and by one variable, its whole environment: the role, and the number of the file
// descriptor that is the connection to who started it. The descriptors below that are the handler's, in their places.
const (
	title    = "informd-shim: " // with the handler's name, as ps shows it
	variable = "INFORMD_SHIM"

	roleSupervise = "supervise"
	roleEnter     = "enter" // the handler's own process, until it is confined
)

// init runs on the process's first thread, to which the runtime locks it. That matters twice: the kernel kills a child
// when the thread that made it ends, and confines threads one by one.
func init() {
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
	// Nobody of the same user looks into it: it knows the handler's environment.
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

// keepDescriptors has what is executed get none of this process's descriptors: not those that a careless library of the
// daemon let through, and not the connection.
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

// privileged tells whether this program has rights that who executed it has not, by its file's mode or capabilities. Such
// a one starts nothing for others.
func privileged() bool {
	const secure = 23 // AT_SECURE of getauxval(3)
	auxv, err := unix.Auxv()
	return err != nil || slices.Contains(auxv, [2]uintptr{secure, 1})
}

// exit ends the process, without what a package may have asked for at an orderly end.
func exit(code int) { syscall.Exit(code) }

// self is this process's arguments and environment for starting the same binary in a role.
func self(name, role string, control int) (path string, argv, env []string) {
	return "/proc/self/exe", []string{title + name}, []string{fmt.Sprintf("%s=%s:%d", variable, role, control)}
}
