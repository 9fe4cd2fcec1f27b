package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/host/confine"
	"github.com/informd/informd/plugins/host/executable"
	"github.com/informd/informd/plugins/host/shim"
)

// shimmed is a process behind a shim, which ends everything that the process starts.
type shimmed struct {
	proc        *shim.Process
	confinement *confine.Confinement
}

func startOS(s childSpec, path string, files []*os.File) (int, osProcess, error) {
	p, err := shim.Start(shim.Order{
		Name:    printable.Line(s.name, maxTitle),
		Path:    shim.Text(path),
		Args:    shim.Texts(append([]string{s.program.Path}, s.args...)),
		Env:     shim.Texts(s.env),
		Dir:     shim.Text(s.dir),
		Confine: s.confinement.Order(),
		Remove:  s.remove,
	}, files, s.confinement.Cgroup(), s.limit)
	if err == nil {
		return p.PID(), &shimmed{proc: p, confinement: s.confinement}, nil
	}
	_ = s.confinement.Kill()
	step, ok := errors.AsType[*shim.StepError](err)
	switch {
	case !ok:
		return 0, nil, err
	case step.Confining:
		err = fmt.Errorf("cannot be confined: %w", err)
		return 0, nil, &confine.Error{What: s.program.Path, Err: err}
	case step.Dir:
		return 0, nil, fmt.Errorf("%s cannot be executed in the working directory %s: %w",
			s.program.Path, s.dir, err)
	}
	return 0, nil, executable.Explain(s.program.Path, err)
}

// maxTitle bounds the bytes of a handler's name that ps shows.
const maxTitle = 100

func (s *shimmed) signal(sig syscall.Signal) {
	s.proc.Signal(sig)
	if sig == syscall.SIGKILL {
		_ = s.confinement.Kill() // a healthy shim does the same
	}
}

func (s *shimmed) root() int { return s.proc.Supervisor() }

func (s *shimmed) wait() error {
	end := s.proc.Wait()
	if !end.Known {
		_ = s.confinement.Kill()
		return errors.New("it was killed together with its supervisor (informd-shim)")
	}
	err := endingOf(end.Status)
	if s.confinement.OutOfMemory() {
		err = errors.New("it was killed: it reached limits.memory")
	}
	if end.Left > 0 {
		return fmt.Errorf("%w; %d processes that it started cannot be killed", err, end.Left)
	}
	return err
}
