package cluster

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// process is a child that says "ready" on its standard output.
type process struct {
	cmd    *exec.Cmd
	ready  chan struct{} // closed when it says so
	done   chan struct{} // closed when it has ended; err and stderr are complete then
	err    error         // nil after exit code 0
	asked  bool          // to end
	stderr tail
}

// launch starts a child in a process group of its own, so that Ctrl-C in a terminal reaches the
// tests alone. The child dies with this process.
func launch(binary string, args ...string) (*process, error) {
	p := &process{
		cmd:   exec.Command(binary, args...),
		ready: make(chan struct{}),
		done:  make(chan struct{}),
	}
	p.cmd.Stdout = &lineWatch{line: []byte("ready\n"), seen: p.ready}
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = ownGroupDyingWithParent()
	p.cmd.WaitDelay = 10 * time.Second // in case another process has inherited its output
	started := make(chan error, 1)
	go func() {
		// Linux ties a parent death signal to the thread that forked: it must live as long as the
		// child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	return p, <-started
}

// signal asks the process to end. It does nothing to one that has ended, or never started.
func (p *process) signal(sig os.Signal) {
	p.asked = true
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Signal(sig)
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// exit returns why the process ended. Any end is an error, even with exit code 0.
func (p *process) exit() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// lineWatch closes seen when the output begins with line. It keeps only what it compares.
type lineWatch struct {
	line []byte // the rest to compare; empty once that is decided
	seen chan struct{}
}

func (w *lineWatch) Write(p []byte) (int, error) {
	n := min(len(p), len(w.line))
	if n == 0 {
		return len(p), nil
	}
	if !bytes.Equal(p[:n], w.line[:n]) {
		w.line = nil
		return len(p), nil
	}
	if w.line = w.line[n:]; len(w.line) == 0 {
		close(w.seen)
	}
	return len(p), nil
}

// tail keeps the last 8 KiB written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	const limit = 8 << 10
	t.kept = append(t.kept, p[max(0, len(p)-limit):]...)
	t.kept = t.kept[max(0, len(t.kept)-limit):]
	return len(p), nil
}
