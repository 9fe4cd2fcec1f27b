//go:build unix && !linux

package host

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// group is a process and its group. What leaves the group is out of reach, and that it ends with the daemon is left to
// its standard input.
type group struct {
	cmd *exec.Cmd

	mu     sync.Mutex
	reaped bool
}

func launchProcess(s start, path string, files []*os.File) (int, running, error) {
	cmd := &exec.Cmd{
		Path:        path,
		Args:        append([]string{s.exe.path}, s.args...),
		Env:         s.env,
		Dir:         s.dir,
		Stdin:       files[0],
		Stdout:      files[1],
		Stderr:      files[2],
		ExtraFiles:  files[3:],
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, startError(s.exe.path, err)
	}
	return cmd.Process.Pid, &group{cmd: cmd}, nil
}

func (g *group) signal(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		_ = syscall.Kill(-g.cmd.Process.Pid, sig)
	}
}

func (g *group) root() int { return 0 }

// wait waits for the process to end, and kills what is left of its group. There is no portable way to do that in the
// safe order.
func (g *group) wait() error {
	_ = g.cmd.Wait() // the state says it all
	_ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reaped = true
	return endingOf(g.cmd.ProcessState.Sys().(syscall.WaitStatus))
}
