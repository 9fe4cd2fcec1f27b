package shim

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stuckLimit is how long a shim may take from the order to kill everything, or from the handler's end, to its own.
const stuckLimit = killLimit + 2*time.Second

// Process is a handler's process behind its shim, as the daemon has it.
type Process struct {
	pid     int
	shim    *os.Process
	control *os.File

	mu     sync.Mutex
	reaped bool
	stuck  *time.Timer // kills the shim; nil while nothing is expected of it
}

// End says how a handler's process ended.
type End struct {
	Status syscall.WaitStatus
	Known  bool // false: the shim ended before the handler did, and nobody saw
	Left   int  // processes that could not be killed
}

// StepError is the reason why a process did not become the handler. It wraps the system's error, if it is one.
type StepError struct {
	Confining bool // the system does not let the process be confined as ordered
	Dir       bool // the process cannot go to its working directory
	text      string
	errno     syscall.Errno
}

func (e *StepError) Error() string { return e.text }

func (e *StepError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

// Start starts a shim, and the handler through it. The handler gets the files as its descriptors 0, 1, 2 and so on; they
// stay the caller's. With a cgroup, an open directory, the handler starts in it; the shim does not. The program must be
// executed within limit: it takes milliseconds, but for a working directory on a file system that does not answer. Who
// starts a process calls Wait.
//
// An error is a *StepError if the shim could be started, and the handler could not. Nothing runs then.
func Start(o Order, files []*os.File, cgroup *os.File, limit time.Duration) (*Process, error) {
	if !installed {
		return nil, errNotInstalled
	}
	if privileged() {
		return nil, errPrivileged
	}
	near, far, err := pair()
	if err != nil {
		return nil, fmt.Errorf("connect with the shim: %w", err)
	}
	path, argv, env := self(o.Name, roleSupervise, len(files))
	inherited := append(files[:len(files):len(files)], far)
	if cgroup != nil {
		o.Cgroup = true
		inherited = append(inherited, cgroup)
	}
	shim, err := os.StartProcess(path, argv, &os.ProcAttr{
		Env: env, Files: inherited, Sys: &syscall.SysProcAttr{Setsid: true}, // away from the daemon's terminal
	})
	_ = far.Close()
	if err != nil {
		_ = near.Close()
		return nil, fmt.Errorf("start the shim, which is this program once more (/proc must be there): %w", err)
	}
	p := &Process{shim: shim, control: near}
	if err := p.order(o, limit); err != nil {
		_ = near.Close() // it ends at that
		defer time.AfterFunc(stuckLimit, func() { _ = shim.Kill() }).Stop()
		_, _ = shim.Wait()
		return nil, err
	}
	return p, nil
}

// errNotInstalled: this program, executed again, would not become a shim but run as usual.
var errNotInstalled = errors.New("this program cannot start handlers: its main package does not import plugins/host/shim/install")

// errPrivileged: the shim would be privileged, too, and TakeOver would ignore it.
var errPrivileged = errors.New("this program's file has capabilities, or a set-user-ID or set-group-ID bit, and such a program starts no others: " +
	"take them from the file (setcap -r, chmod ug-s) and give them to the service, as systemd's AmbientCapabilities= does")

// order sends the order and hears what became of it.
func (p *Process) order(o Order, limit time.Duration) error {
	_ = p.control.SetDeadline(time.Now().Add(limit))
	if err := send(p.control, o); err != nil {
		return fmt.Errorf("tell the shim what to start: %w", err)
	}
	var r report
	switch err := receive(p.control, maxFrame, &r); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it could not be executed within %v", limit)
	case err != nil:
		return fmt.Errorf("hear from the shim: %w", err)
	}
	if f := r.Error; f != nil {
		return &StepError{Confining: f.Step == stepConfine, Dir: f.Step == stepDir, text: f.Text, errno: f.Errno}
	}
	p.pid = r.PID
	return p.control.SetReadDeadline(time.Time{})
}

// PID is the handler's process id, and that of its group. It may be another's once Wait has returned.
func (p *Process) PID() int { return p.pid }

// Supervisor is the shim's process id: that of which everything that the handler starts stays a descendant.
func (p *Process) Supervisor() int { return p.shim.Pid }

// Signal sends a signal to the handler's process group. SIGKILL ends everything that the handler started.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	if sig == syscall.SIGKILL {
		p.expectEnd()
		_ = p.shim.Signal(syscall.SIGCONT) // should somebody have stopped it
	}
	_ = p.control.SetWriteDeadline(time.Now().Add(time.Second))
	_ = send(p.control, signalled{sig})
}

// expectEnd has a shim that does not end killed. p.mu is held.
func (p *Process) expectEnd() {
	if p.stuck == nil {
		p.stuck = time.AfterFunc(stuckLimit, func() { _ = p.shim.Kill() })
	}
}

// Wait returns when the shim has ended, and with it the handler and all that it started. It is called once.
func (p *Process) Wait() End {
	var end End
	for {
		var r report
		if err := receive(p.control, maxFrame, &r); err != nil {
			break // it has ended, or does at hearing nothing more
		}
		if r.Ended {
			end.Status, end.Known = r.Status, true
		}
		end.Left += r.Left
		p.mu.Lock()
		p.expectEnd()
		p.stuck.Reset(stuckLimit) // it is at work
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.expectEnd()
	p.mu.Unlock()
	_ = p.control.Close()
	_, _ = p.shim.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	p.stuck.Stop()
	if !end.Known {
		// The handler was not reaped by its parent, who is gone. Its number was its own until a moment ago.
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	return end
}

// pair is a connection of which no process that is started inherits an end, unless it is meant to. Deadlines work on the
// near end.
func pair() (near, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		_, _ = unix.Close(fds[0]), unix.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far"), nil
}
