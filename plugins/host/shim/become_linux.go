package shim

import (
	"errors"
	"os"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter confines this process, and makes it the handler. What fails is told to the shim; the connection ends with the
// execution.
func enter(control *os.File, files int) {
	debug.SetGCPercent(-1) // limits may leave no room for more threads
	var o Order
	if err := receive(control, maxOrder, &o); err != nil {
		_ = send(control, failure(stepOrder, err))
		return
	}
	_ = send(control, become(o, files))
}

// become returns only if it fails.
func become(o Order, files int) *failed {
	shim := os.Getppid()
	argv, env := plain(o.Args), plain(o.Env)
	if o.Confine != nil {
		if err := o.Confine.Enter(); err != nil {
			return failure(stepConfine, err)
		}
	}
	// To become another user took the signal away that ends the handler with its shim.
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
	for fd := 3; fd < files; fd++ { // the standard ones are inherited in any case
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
