package shim

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// comm is the name of the process where only 15 bytes are shown. Without it the kernel shows exe.
var comm = []byte("informd-shim\x00")

// supervisor is a shim's state. The main goroutine owns it, locked to its thread: the kernel kills
// the handler when that thread ends.
type supervisor struct {
	control  *os.File
	order    Order
	files    int              // the handler's descriptors are below this number
	children <-chan os.Signal // one or more children have ended
	handler  int              // process id; 0 before the start, and once it is reaped
	reaped   int              // number of processes reaped so far
}

// supervise runs a shim to its end.
func supervise(control *os.File, files int) {
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&comm[0])), 0, 0, 0)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		_ = send(control, report{Error: failure(stepOrder, err)})
		return
	}
	s := &supervisor{control: control, files: files, children: notify()}
	if err := receive(control, maxOrder, &s.order); err != nil {
		_ = send(control, report{Error: failure(stepOrder, err)})
		return
	}
	makeThreads()
	s.run()
	if err := send(control, report{Left: s.killAll()}); err != nil { // the daemon is gone
		s.removeAll()
	}
	exit(0)
}

// makeThreads makes all threads that the shim will ever need. Later it may get no more: a fork bomb
// of the same user takes them, and the Go runtime ends a process that gets no thread.
func makeThreads() {
	const enough = 8
	runtime.GOMAXPROCS(2)
	var there, gone sync.WaitGroup
	gate := make(chan struct{})
	there.Add(enough)
	for range enough {
		gone.Go(func() {
			runtime.LockOSThread() // each gets a thread, which stays for later
			defer runtime.UnlockOSThread()
			there.Done()
			<-gate
		})
	}
	there.Wait()
	close(gate)
	gone.Wait()
}

// notify catches every signal that can be caught, so that none ends or stops the shim, and returns
// those that say that children ended. Ignoring signals would not do: the handler would inherit
// that.
func notify() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1)) // nobody receives them
	children := make(chan os.Signal, 1)    // one is enough: reap looks at all children
	signal.Notify(children, syscall.SIGCHLD)
	return children
}

// run starts the handler and returns when it has ended, or when everything must end.
func (s *supervisor) run() {
	started, err := s.start()
	if err != nil {
		_ = send(s.control, report{Error: err})
		return
	}
	s.letGo()
	signals := make(chan syscall.Signal)
	go func() {
		defer close(signals)
		for {
			var m signalled
			if receive(s.control, maxFrame, &m) != nil {
				return
			}
			signals <- m.Signal
		}
	}()
	for {
		select {
		case err := <-started:
			if err != nil {
				_ = send(s.control, report{Error: err})
				return
			}
			_ = send(s.control, report{PID: s.handler})
			started = nil
			if s.reap(); s.handler == 0 {
				return
			}
		case sig, ok := <-signals:
			if !ok || sig == syscall.SIGKILL {
				return
			}
			if s.handler != 0 {
				_ = syscall.Kill(-s.handler, sig)
			}
		case <-s.children:
			if started != nil {
				continue // the result of the start is reported first
			}
			if s.reap(); s.handler == 0 {
				return
			}
		}
	}
}

// start starts the handler's process. The channel delivers once: nil when the process became the
// handler, or why it did not.
func (s *supervisor) start() (<-chan *failed, *failed) {
	started := make(chan *failed, 1)
	attr := &syscall.ProcAttr{
		Dir: string(s.order.Dir),
		Env: plain(s.order.Env),
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	for fd := range s.files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	if s.order.Cgroup {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, s.cgroup()
	}
	if s.order.Confine == nil {
		pid, err := syscall.ForkExec(string(s.order.Path), plain(s.order.Args), attr)
		if err != nil {
			return nil, failure(stepExec, err)
		}
		s.handler = pid
		started <- nil
		return started, nil
	}

	near, far, err := pair()
	if err != nil {
		return nil, failure(stepConfine, err)
	}
	path, argv, env := self(s.order.Name, roleEnter, s.files)
	attr.Dir, attr.Env, attr.Files = "", env, append(attr.Files, far.Fd())
	pid, err := syscall.ForkExec(path, argv, attr)
	_ = far.Close()
	if err != nil {
		_ = near.Close()
		return nil, failure(stepConfine, err)
	}
	s.handler = pid
	go func() {
		defer near.Close()
		order := s.order
		order.Remove = nil
		if err := send(near, order); err != nil {
			started <- failure(stepOrder, err)
			return
		}
		var f failed
		switch err := receive(near, maxFrame, &f); {
		case errors.Is(err, io.EOF):
			started <- nil
		case err != nil:
			started <- failure(stepConfine, err)
		default:
			started <- &f
		}
	}()
	return started, nil
}

// letGo closes the handler's descriptors, so that the daemon notices when the handler closes its
// own.
func (s *supervisor) letGo() {
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup3(int(null.Fd()), fd, 0)
		}
		_ = null.Close()
	}
	for fd := 3; fd < s.files; fd++ {
		_ = unix.Close(fd)
	}
}

// cgroup returns the descriptor of the cgroup, if there is one.
func (s *supervisor) cgroup() int { return s.files + 1 }

// reap reaps all children that have ended, and reports the handler's end. It returns whether any
// child is left. Orphans become children of the shim, so without a child there is no descendant.
func (s *supervisor) reap() (left bool) {
	if s.handler != 0 && ended(s.handler) {
		// Kill the rest of its group now. Once the handler is reaped, its number, which is also the
		// group's, may belong to others.
		_ = syscall.Kill(-s.handler, syscall.SIGKILL)
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return false
		case pid == 0:
			return true
		case status.Exited() || status.Signaled(): // a traced child may only have stopped
			s.reaped++
			if pid == s.handler {
				s.handler = 0
				_ = send(s.control, report{Ended: true, Status: status})
			}
		}
	}
}

// ended reports whether a child has ended, without reaping it.
func ended(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	const exited, killed, dumped = 1, 2, 3 // CLD_EXITED and so on; a child that stopped has others
	return err == nil && info.Signo != 0 &&
		(info.Code == exited || info.Code == killed || info.Code == dumped)
}

// removeAll removes what the daemon would have removed, had it lived.
func (s *supervisor) removeAll() {
	for _, dir := range s.order.Remove {
		_ = RemoveAll(dir)
	}
	if !s.order.Cgroup {
		return
	}
	path, err := os.Readlink(fdPath(s.cgroup()))
	for range 50 { // until the kernel has released the last process
		if err != nil || !errors.Is(unix.Rmdir(path), unix.EBUSY) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
