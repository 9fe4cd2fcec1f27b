package host

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/informd/informd/plugins/host/confine"
)

// process is a handler's process, everything that it started, and its pipes. All of it ends together, so that nothing
// stays, holds a pipe or keeps a port.
type process struct {
	pid    int           // the handler's, and that of its group
	exited chan struct{} // closed when the process and all that it started are gone, and its output is read

	running running

	mu    sync.Mutex
	stdin *os.File // the process reads to its end to learn that the daemon is gone; nil once closed
	end   error    // how the process ended; nil while it runs
}

// running is what each system has to make and end processes.
type running interface {
	// signal sends a signal to the process's group; SIGKILL ends everything that it started, too. It does nothing once
	// the process is gone.
	signal(syscall.Signal)
	// root is the process whose descendants are the handler's process and all that it started; 0: there is none.
	root() int
	// wait returns when the process is gone, and says how it ended. It is called once.
	wait() error
}

// start is what a process is started with. The functions read the process's output to its end, each in a goroutine of
// its own; the files are closed after they have returned.
type start struct {
	name        string // the handler's
	exe         *executable
	args        []string
	env         []string
	dir         string
	extra       *os.File // inherited as file descriptor 3; may be nil
	confinement *confine.Confinement
	remove      []string      // directories that are to go if the daemon does before the process
	limit       time.Duration // for the program to be executed
	stdout      func(*os.File)
	stderr      func(*os.File)
}

// startProcess starts the process.
func startProcess(s start) (*process, error) {
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
	path := s.exe.path
	if s.exe.file != nil {
		// A script's interpreter opens it by the same name.
		path = fmt.Sprintf("/proc/self/fd/%d", len(files))
		files = append(files, s.exe.file)
	}
	pid, running, err := launchProcess(s, path, files)
	closeAll(in.r, out.w, errs.w)
	if err != nil {
		closeAll(in.w, out.r, errs.r)
		return nil, err
	}
	p := &process{pid: pid, running: running, stdin: in.w, exited: make(chan struct{})}
	var readers sync.WaitGroup
	readers.Go(func() { s.stdout(out.r) })
	readers.Go(func() { s.stderr(errs.r) })
	go func() {
		defer close(p.exited)
		p.ended(running.wait())
		p.closeStdin()
		for _, f := range []*os.File{out.r, errs.r} {
			_ = f.SetReadDeadline(time.Now().Add(outputGrace))
		}
		readers.Wait()
		closeAll(out.r, errs.r)
	}()
	return p, nil
}

// outputGrace is how long what a process wrote is still read after its end. What cannot be killed may hold the pipes
// open for ever.
const outputGrace = 500 * time.Millisecond

func (p *process) ended(how error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = how
}

// signal sends a signal to the process's group, unless it is gone; SIGKILL is for everything that the process started.
func (p *process) signal(sig syscall.Signal) { p.running.signal(sig) }

// closeStdin tells the process that it is not needed any more.
func (p *process) closeStdin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stdin != nil {
		_ = p.stdin.Close()
		p.stdin = nil
	}
}

// ending says how the process ended; nil while it runs.
func (p *process) ending() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end
}

// endingOf puts a status, as the system has it, into words.
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
