package shim

import (
	"errors"
	"os"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter confines this process and executes the handler in it. It reports a failure to the shim.
// Success shows in the end of the connection, which the execution closes.
func enter(control *os.File, files int) {
	debug.SetGCPercent(-1) // limits may leave no room for the collector's threads
	var o Order
	if err := receive(control, maxOrder, &o); err != nil {
		_ = send(control, failure(stepOrder, err))
		return
	}
	_ = send(control, become(o, files))
}

// become confines this process and executes the handler. It returns only if that fails.
func become(o Order, files int) *failed {
	shim := os.Getppid()
	argv, env := plain(o.Args), plain(o.Env)
	if o.Confine != nil {
		if err := o.Confine.Enter(); err != nil {
			return failure(stepConfine, err)
		}
	}
	// When a process becomes another user, the kernel clears the signal that ends it with its
	// parent.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return failure(stepConfine, err)
	}
	if os.Getppid() != shim {
		return failure(stepConfine, errors.New("the shim is gone"))
	}
	if o.Dir != "" {
		if err := syscall.Chdir(string(o.Dir)); err != nil {
			return failure(stepDir, err)
		}
	}
	for fd := 3; fd < files; fd++ { // the standard ones are never closed on execution
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return failure(stepOrder, err)
		}
	}
	return failure(stepExec, syscall.Exec(string(o.Path), argv, env))
}

func plain(texts []Text) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = string(t)
	}
	return out
}
