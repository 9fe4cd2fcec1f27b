package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is one operating system process, its group and its pipes. The group is ended with it, so that nothing it
// started stays, holds a pipe or keeps a port.
type process struct {
	pid    int
	exited chan struct{} // closed when the process is reaped, its group killed and its output read

	mu     sync.Mutex
	reaped bool
	stdin  *os.File // the process reads to its end to learn that the daemon is gone; nil once closed
	state  *os.ProcessState
}

// start is what a process is started with. The functions read the process's output to its end, each in a goroutine of
// its own; the files are closed after they have returned.
type start struct {
	exe    *executable
	args   []string
	env    []string
	dir    string
	extra  *os.File // inherited as file descriptor 3; may be nil
	stdout func(*os.File)
	stderr func(*os.File)
}

// startProcess starts the process. The thread that forks it also waits for it and stays until then: the kernel ties a
// child's parent-death signal to the thread that made it.
func startProcess(s start) (*process, error) {
	type started struct {
		p   *process
		err error
	}
	result := make(chan started)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p, cmd, output, err := fork(s)
		result <- started{p, err}
		if err == nil {
			p.wait(cmd, output)
		}
	}()
	r := <-result
	return r.p, r.err
}

// output is the read ends of a process's output, and who reads them.
type output struct {
	files   []*os.File
	readers sync.WaitGroup
}

func fork(s start) (*process, *exec.Cmd, *output, error) {
	cmd := &exec.Cmd{
		Path:        s.exe.path,
		Args:        append([]string{s.exe.path}, s.args...),
		Env:         s.env,
		Dir:         s.dir,
		SysProcAttr: processAttributes(),
	}
	if s.extra != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.extra)
	}
	if s.exe.file != nil {
		if err := executeFile(cmd, s.exe.file); err != nil {
			return nil, nil, nil, err
		}
	}

	stdinR, stdinW, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	stdoutR, stdoutW, err := os.Pipe()
	if err != nil {
		closeAll(stdinR, stdinW)
		return nil, nil, nil, err
	}
	stderrR, stderrW, err := os.Pipe()
	if err != nil {
		closeAll(stdinR, stdinW, stdoutR, stdoutW)
		return nil, nil, nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdinR, stdoutW, stderrW
	err = cmd.Start()
	closeAll(stdinR, stdoutW, stderrW)
	if err != nil {
		closeAll(stdinW, stdoutR, stderrR)
		return nil, nil, nil, startError(s.exe.path, err)
	}

	p := &process{pid: cmd.Process.Pid, stdin: stdinW, exited: make(chan struct{})}
	out := &output{files: []*os.File{stdoutR, stderrR}}
	out.readers.Go(func() { s.stdout(stdoutR) })
	out.readers.Go(func() { s.stderr(stderrR) })
	return p, cmd, out, nil
}

// outputGrace is how long what a process wrote is still read after its end. A descendant that left the group may hold
// the pipes open for ever.
const outputGrace = 500 * time.Millisecond

// wait follows the process to its end and tidies up.
func (p *process) wait(cmd *exec.Cmd, out *output) {
	p.reap(cmd)
	p.closeStdin()
	for _, f := range out.files {
		_ = f.SetReadDeadline(time.Now().Add(outputGrace))
	}
	out.readers.Wait()
	closeAll(out.files...)
	close(p.exited)
}

// ended notes that the process is reaped: its number may now be anybody's. p.mu is held.
func (p *process) ended(state *os.ProcessState) { p.reaped, p.state = true, state }

// signal sends a signal to the whole group, unless the process is gone.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.pid, sig)
	}
}

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
	if p.state == nil {
		return nil
	}
	status, ok := p.state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled() && status.Signal() == syscall.SIGKILL:
		return errors.New("it was killed (SIGKILL; out of memory, perhaps)")
	case ok && status.Signaled():
		return fmt.Errorf("it was ended by a signal: %v", status.Signal())
	case p.state.ExitCode() != 0:
		return fmt.Errorf("it exited with status %d", p.state.ExitCode())
	}
	return errors.New("it exited with status 0")
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
