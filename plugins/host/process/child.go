package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/informd/informd/plugins/host/confine"
	"github.com/informd/informd/plugins/host/executable"
)

// child is a handler's process, everything that it started, and its pipes. All of it ends together:
// no descendant stays, holds a pipe or keeps a port.
type child struct {
	pid    int           // of the handler, and of its process group
	exited chan struct{} // closed when it and all that it started are gone, and its output is read
	os     osProcess

	mu    sync.Mutex // guards the fields below
	stdin *os.File   // the handler notices its end when the daemon is gone; nil once closed
	end   error      // how the process ended; nil while it runs
}

// osProcess is how each system starts and ends processes.
type osProcess interface {
	// signal sends a signal to the process's group. SIGKILL ends everything that it started, too.
	// It does nothing once the process is gone.
	signal(syscall.Signal)
	// root returns the process whose descendants are the handler's process and all that it started;
	// 0 if there is none.
	root() int
	// wait returns when the process is gone, and says how it ended. It is called once.
	wait() error
}

// childSpec says what to start. The functions read the process's output to its end, each in a
// goroutine of its own. The files are closed after they have returned.
type childSpec struct {
	name        string // of the handler
	program     *executable.Program
	args        []string
	env         []string
	dir         string
	extra       *os.File // inherited as file descriptor 3; may be nil
	confinement *confine.Confinement
	remove      []string      // directories to remove if the daemon ends before the process
	limit       time.Duration // for the program to be executed
	stdout      func(*os.File)
	stderr      func(*os.File)
}

// startChild starts a process.
func startChild(s childSpec) (*child, error) {
	var pipes [3]struct{ r, w *os.File }
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			for _, p := range pipes[:i] {
				closeAll(p.r, p.w)
			}
			return nil, err
		}
		pipes[i].r, pipes[i].w = r, w
	}
	in, out, errs := pipes[0], pipes[1], pipes[2]
	files := []*os.File{in.r, out.w, errs.w}
	if s.extra != nil {
		files = append(files, s.extra)
	}
	path := s.program.Path
	if s.program.File != nil {
		// A script's interpreter opens it by the same name.
		path = fmt.Sprintf("/proc/self/fd/%d", len(files))
		files = append(files, s.program.File)
	}
	pid, started, err := startOS(s, path, files)
	closeAll(in.r, out.w, errs.w)
	if err != nil {
		closeAll(in.w, out.r, errs.r)
		return nil, err
	}
	c := &child{pid: pid, os: started, stdin: in.w, exited: make(chan struct{})}
	var readers sync.WaitGroup
	readers.Go(func() { s.stdout(out.r) })
	readers.Go(func() { s.stderr(errs.r) })
	go func() {
		defer close(c.exited)
		c.ended(started.wait())
		c.closeStdin()
		for _, f := range []*os.File{out.r, errs.r} {
			_ = f.SetReadDeadline(time.Now().Add(outputGrace))
		}
		readers.Wait()
		closeAll(out.r, errs.r)
	}()
	return c, nil
}

// outputGrace is how long output is still read after the process ended. A process that cannot be
// killed may hold the pipes open for ever.
const outputGrace = 500 * time.Millisecond

func (c *child) ended(how error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = how
}

// signal sends a signal to the process's group, unless it is gone. SIGKILL ends everything that the
// process started.
func (c *child) signal(sig syscall.Signal) { c.os.signal(sig) }

// closeStdin tells the handler to exit.
func (c *child) closeStdin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin != nil {
		_ = c.stdin.Close()
		c.stdin = nil
	}
}

// ending returns how the process ended, or nil while it runs.
func (c *child) ending() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end
}

// endingOf puts the system's status into words.
func endingOf(status syscall.WaitStatus) error {
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return errors.New("it was killed (SIGKILL; out of memory, perhaps)")
	case status.Signaled():
		return fmt.Errorf("it was ended by a signal: %v", status.Signal())
	}
	return fmt.Errorf("it exited with status %d", status.ExitStatus())
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
