package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Enter applies the order to the calling thread, and locks the goroutine to it. The caller executes
// the handler next, in the same goroutine: then the other threads end, and what the kernel keeps
// per thread holds for the whole process. After an error the process is half confined, and must
// exit. A parent-death signal stays set. A nil Order does nothing.
func (o *Order) Enter() error {
	if o == nil {
		return nil
	}
	runtime.LockOSThread()
	parent := os.Getppid()
	var parentDeath int32
	if err := unix.Prctl(unix.PR_GET_PDEATHSIG,
		uintptr(unsafe.Pointer(&parentDeath)), 0, 0, 0); err != nil {
		return fmt.Errorf("read the parent-death signal: %w", err)
	}

	// First everything that needs the rights which the process is about to lose.
	var rules *os.File
	if o.Sandbox != nil {
		var err error
		if rules, err = o.Sandbox.ruleset(); err != nil {
			return err
		}
		defer rules.Close()
		if err := dropBoundingSet(); err != nil {
			return err
		}
	}
	if o.User != nil {
		if err := o.User.become(); err != nil {
			return err
		}
	}

	if o.Sandbox != nil {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
		if err := dropCapabilities(); err != nil {
			return err
		}
	}

	// The kernel clears the signal when the user changes, and the parent may have died meanwhile.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(parentDeath), 0, 0, 0); err != nil {
		return fmt.Errorf("set the parent-death signal: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("the parent is gone")
	}

	var program []unix.SockFilter
	if o.Sandbox != nil {
		if err := restrict(int(rules.Fd())); err != nil {
			return err
		}
		program = filter(seccompRules(o.Sandbox.Network, o.Sandbox.Connect))
	}
	// From here on this process may exceed its limits already. It must not need more memory or
	// threads.
	for _, l := range o.Rlimits {
		if err := l.set(); err != nil {
			return err
		}
	}
	if o.Sandbox != nil {
		return loadFilter(program)
	}
	return nil
}

// set sets the limit, unless the process has a lower one already.
func (l rlimit) set() error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(l.Resource, &now); err != nil {
		return fmt.Errorf("read limit %d: %w", l.Resource, err)
	}
	limit := min(l.Max, now.Max)
	// Use package syscall: its Exec would otherwise restore the original limit on open files.
	if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return fmt.Errorf("set limit %d to %d: %w", l.Resource, limit, err)
	}
	return nil
}

// become changes the user of the process for good.
func (id *identity) become() error {
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("leave all groups: %w", err)
	}
	if err := syscall.Setresgid(id.GID, id.GID, id.GID); err != nil {
		return fmt.Errorf("become group %d: %w", id.GID, err)
	}
	if err := syscall.Setresuid(id.UID, id.UID, id.UID); err != nil {
		return fmt.Errorf("become user %d: %w", id.UID, err)
	}
	return nil
}

// dropBoundingSet empties the set of capabilities that programs can gain. A process that may not do
// so cannot gain any with no_new_privs.
func dropBoundingSet() error {
	for c := uintptr(0); ; c++ {
		switch err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); {
		case errors.Is(err, unix.EINVAL) && c > 0: // the kernel has no more
			return nil
		case errors.Is(err, unix.EPERM):
			return nil
		case err != nil:
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
}

// dropCapabilities drops all capabilities of the thread, and with them the ambient ones.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop all capabilities: %w", err)
	}
	return nil
}
