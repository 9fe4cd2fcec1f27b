//go:build unix && !linux

package process

import (
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/informd/informd/plugins/host/executable"
)

// group is a process and its process group. Descendants that leave the group are out of reach. When
// the daemon is killed, the end of standard input is all that tells the handler.
type group struct {
	cmd *exec.Cmd

	mu     sync.Mutex // guards reaped
	reaped bool
}

func startOS(s childSpec, path string, files []*os.File) (int, osProcess, error) {
	cmd := &exec.Cmd{
		Path:        path,
		Args:        append([]string{s.program.Path}, s.args...),
		Env:         s.env,
		Dir:         s.dir,
		Stdin:       files[0],
		Stdout:      files[1],
		Stderr:      files[2],
		ExtraFiles:  files[3:],
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, executable.Explain(s.program.Path, err)
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

// wait waits for the process to end, and kills what is left of its group. There is no portable way
// to kill first and reap then.
func (g *group) wait() error {
	_ = g.cmd.Wait() // the state says it all
	_ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reaped = true
	return endingOf(g.cmd.ProcessState.Sys().(syscall.WaitStatus))
}
