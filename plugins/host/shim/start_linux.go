package shim

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/internal/procfs"
)

// stuckLimit is how long a shim may take to end, from the order to kill everything or from the
// handler's end on.
const stuckLimit = killLimit + 2*time.Second

// Process is a handler's process behind its shim, as the daemon sees it.
type Process struct {
	pid     int
	shim    *os.Process
	control *os.File

	mu     sync.Mutex  // guards the fields below, and writes to control
	reaped bool        // the shim has ended; its number and the handler's may be others' by now
	stuck  *time.Timer // kills the shim if it does not end; nil before its end is expected
}

// End says how a handler's process ended.
type End struct {
	Status syscall.WaitStatus
	Known  bool // false: the shim ended first, and nobody saw how the handler ended
	Left   int  // processes that could not be killed
}

// StepError says why a process did not become the handler. It wraps the system's error, if there is
// one.
type StepError struct {
	Confining bool // the system does not allow to confine the process as ordered
	Dir       bool // the process cannot enter its working directory
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

// Start starts a shim, which starts the handler. The handler gets the files as its descriptors 0,
// 1, 2 and so on; the caller closes its own. cgroup is an open directory: the handler starts in
// that cgroup, the shim does not; nil: there is none. The program must be executed within limit.
// That takes milliseconds, unless the working directory is on a file system that does not answer.
// The caller calls Wait.
//
// The error is a *StepError if the shim could be started and the handler could not. Nothing runs
// after an error.
func Start(o Order, files []*os.File, cgroup *os.File, limit time.Duration) (*Process, error) {
	if !installed {
		return nil, errNotInstalled
	}
	if privileged() {
		return nil, errPrivileged
	}
	near, far, err := pair()
	if err != nil {
		return nil, fmt.Errorf("connect to the shim: %w", err)
	}
	path, argv, env := self(o.Name, roleSupervise, len(files))
	inherited := append(files[:len(files):len(files)], far)
	if cgroup != nil {
		o.Cgroup = true
		inherited = append(inherited, cgroup)
	}
	shim, err := os.StartProcess(path, argv, &os.ProcAttr{
		Env: env, Files: inherited,
		Sys: apart(),
	})
	_ = far.Close()
	if err != nil {
		_ = near.Close()
		return nil, fmt.Errorf("start the shim, a second process of this program "+
			"(it needs /proc): %w", err)
	}
	p := &Process{shim: shim, control: near}
	if err := p.order(o, limit); err != nil {
		_ = near.Close() // which ends the shim
		defer time.AfterFunc(stuckLimit, func() { _ = shim.Kill() }).Stop()
		_, _ = shim.Wait()
		return nil, err
	}
	return p, nil
}

// apart returns how the shim leaves the daemon's process group, to which others send signals. If the
// daemon has a terminal, the shim leaves that, too, with a session of its own, so that no handler can
// type there. Linux may share out the processors among sessions (autogroup in sched(7)). Then a
// handler that mostly slept, in a session of its own, waited for a processor for up to 115 ms. So
// without a terminal the shim stays in the daemon's session. Only the limits in its manifest keep a
// handler from taking processor time that the daemon needs.
func apart() *syscall.SysProcAttr {
	if hasTerminal() {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// hasTerminal reports whether this process has a controlling terminal. It does if nobody can tell.
func hasTerminal() bool {
	p, err := procfs.Self()
	return err != nil || p.Terminal != 0
}

// errNotInstalled: this program, executed again, would not become a shim but run as usual.
var errNotInstalled = errors.New("this program cannot start handlers: " +
	"its main package does not import plugins/host/shim/install")

// errPrivileged: the shim would be privileged, too, and TakeOver would ignore it.
var errPrivileged = errors.New("this program's file has capabilities, " +
	"or a set-user-ID or set-group-ID bit, and such a program starts no others: " +
	"take them from the file (setcap -r, chmod ug-s) and give them to the service, " +
	"as systemd's AmbientCapabilities= does")

// order sends the order and receives the result.
func (p *Process) order(o Order, limit time.Duration) error {
	_ = p.control.SetDeadline(time.Now().Add(limit))
	if err := send(p.control, o); err != nil {
		return fmt.Errorf("send the order to the shim: %w", err)
	}
	var r report
	switch err := receive(p.control, maxFrame, &r); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it could not be executed within %v", limit)
	case err != nil:
		return fmt.Errorf("read the shim's report: %w", err)
	}
	if f := r.Error; f != nil {
		return &StepError{
			Confining: f.Step == stepConfine, Dir: f.Step == stepDir,
			text: f.Text, errno: f.Errno,
		}
	}
	p.pid = r.PID
	return p.control.SetReadDeadline(time.Time{})
}

// PID returns the process id of the handler, and of its process group. Once Wait has returned,
// another process may have the number.
func (p *Process) PID() int { return p.pid }

// Supervisor returns the process id of the shim. Everything that the handler starts stays its
// descendant.
func (p *Process) Supervisor() int { return p.shim.Pid }

// Signal sends a signal to the handler's process group. SIGKILL ends everything that the handler
// started.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	if sig == syscall.SIGKILL {
		p.expectEnd()
		_ = p.shim.Signal(syscall.SIGCONT) // it may have been stopped
	}
	_ = p.control.SetWriteDeadline(time.Now().Add(time.Second))
	_ = send(p.control, signalled{sig})
}

// expectEnd kills the shim after stuckLimit if it does not end by itself. p.mu is held.
func (p *Process) expectEnd() {
	if p.stuck == nil {
		p.stuck = time.AfterFunc(stuckLimit, func() { _ = p.shim.Kill() })
	}
}

// Wait returns when the shim has ended, and with it the handler and everything that it started. It
// is called once.
func (p *Process) Wait() End {
	var end End
	for {
		var r report
		if err := receive(p.control, maxFrame, &r); err != nil {
			break // the shim has ended, or does so now that the connection is broken
		}
		if r.Ended {
			end.Status, end.Known = r.Status, true
		}
		end.Left += r.Left
		p.mu.Lock()
		p.expectEnd()
		p.stuck.Reset(stuckLimit) // it is alive
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
		// The shim did not reap the handler. The number was still the handler's a moment ago.
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	return end
}

// pair returns the ends of a connection. Processes inherit an end only if it is passed to them.
// Deadlines work on the near end.
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
