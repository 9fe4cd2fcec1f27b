package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host/cache"
	"github.com/informd/informd/plugins/host/confine"
	"github.com/informd/informd/plugins/host/executable"
	"github.com/informd/informd/plugins/host/output"
)

// Command says what to run. Package host documents the fields of the same names.
type Command struct {
	Name       string // of the handler
	Path       string
	Args       []string
	SHA256     string
	Env        []string
	Dir        string
	DisableTLS bool
	Read       []string // sources that the process may read from the cache
	Confine    confine.Spec
	Stdout     *os.File // inherited as descriptor 3; nil: none
}

// Surroundings are what the daemon provides for all its handler processes.
type Surroundings struct {
	RunDir        string        // parent of the socket directories; empty: found by itself
	TempDir       string        // parent of directories for temporary files; empty: the system's
	Cache         cache.Sources // what Command.Read is about
	Reads         *cache.Counts // of the reads
	StartTimeout  time.Duration // from launch to connection
	LogLinesBurst int
	LogLinesRate  int
}

// Process is one process of a handler: what it is made from, what was made for it, and its state.
type Process struct {
	command      Command
	surroundings Surroundings
	log          *slog.Logger
	program      *executable.Program
	output       *output.Log
	shaken       chan error // delivers the handshake's result once
	syncing      sync.WaitGroup

	// Set by Connect before the process starts, and not changed afterwards.
	offer string // the variable that offers TLS; empty: TLS is not offered
	made  provisions

	mu        sync.Mutex // guards the fields below; no other lock is taken under it
	child     *child
	handshake handshake
	grpc      *grpc.ClientConn
	conn      net.Conn // to the process, below grpc
	why       error    // the first reason why the process is of no use any more
}

// New finds the program and the directory for sockets. It launches nothing. The caller calls
// Connect, and End in any case.
func New(
	ctx context.Context, command Command, surroundings Surroundings, log *slog.Logger,
) (*Process, error) {
	dir, err := findRunDir(surroundings.RunDir)
	if err != nil {
		return nil, err
	}
	program, err := executable.Open(ctx, command.Path, command.SHA256)
	if err != nil {
		return nil, err
	}
	surroundings.RunDir = dir
	p := &Process{
		command: command, surroundings: surroundings, log: log, program: program,
		output: output.New(log, surroundings.LogLinesBurst, surroundings.LogLinesRate),
		shaken: make(chan error, 1),
	}
	return p, nil
}

// Connect launches the process and connects to it, within StartTimeout. It is called once.
func (p *Process) Connect() (handlerpb.HandlerClient, error) {
	defer p.program.Close()
	return p.connect()
}

// start launches the process, confined as asked.
func (p *Process) start() error {
	if err := p.made.make(p.command, p.surroundings, p.program.Path, p.log); err != nil {
		p.fail(err)
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why != nil {
		return p.why
	}
	var err error
	p.child, err = startChild(childSpec{
		name:        p.command.Name,
		program:     p.program,
		args:        p.command.Args,
		env:         p.environment(),
		dir:         p.command.Dir,
		extra:       p.command.Stdout,
		confinement: p.made.confinement,
		remove:      p.made.directories(),
		limit:       p.surroundings.StartTimeout,
		stdout:      p.readStdout,
		stderr:      p.output.ReadStderr,
	})
	if errors.Is(err, fs.ErrPermission) {
		c := p.command
		c.Confine.Limits = confine.Limits{}
		err = fmt.Errorf("%w%s", err, suspects(c))
	}
	if err != nil {
		p.why = err
		return err
	}
	p.made.serve(p.child.os.root())
	return nil
}

// readStdout reads the handshake and, after it, whatever the process prints.
func (p *Process) readStdout(f *os.File) {
	h, rest, err := readHandshake(f, p.made.socketDir)
	if err == nil && h.certificate != nil && p.offer == "" {
		err = errors.New("it answers with a certificate although it was not offered TLS")
	}
	if err != nil {
		p.fail(err)
	} else {
		p.mu.Lock()
		p.handshake = h
		p.mu.Unlock()
	}
	p.shaken <- err
	p.output.ReadStdout(rest, f)
}

// fail records why the process is of no use. The first reason counts.
func (p *Process) fail(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why == nil {
		p.why = why
	}
}

// Kill ends the process, everything that it started, and the connection, which another process may
// hold open. The first reason counts.
func (p *Process) Kill(why error) {
	p.fail(why)
	p.mu.Lock()
	child, conn := p.child, p.conn
	p.mu.Unlock()
	if child != nil {
		child.signal(syscall.SIGKILL)
	}
	if conn != nil {
		_ = conn.Close()
	}
}

// keep makes conn end with the process. It returns why the process is of no use already.
func (p *Process) keep(conn net.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = conn
	return p.why
}

func (p *Process) running() *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child
}

// Exited is closed once the process and all that it started are gone. Connect has succeeded.
func (p *Process) Exited() <-chan struct{} { return p.running().exited }

// Leaving returns nil: a process serves until End.
func (p *Process) Leaving() <-chan struct{} { return nil }

// PID is the process id. Connect has succeeded.
func (p *Process) PID() int { return p.running().pid }

// LastLines returns the last lines on standard error, oldest first.
func (p *Process) LastLines() []string { return p.output.LastLines() }

// Hide implements session.Peer.
func (p *Process) Hide(may func() bool) { p.output.Hide(may) }

// Confined says what the process is confined to; empty for nothing. Connect has succeeded.
func (p *Process) Confined() string { return p.made.confinement.String() }

// socket returns the path that the process listens on; empty before the handshake.
func (p *Process) socket() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handshake.socket
}

// endGrace is how long End waits for a process that was killed.
const endGrace = 10 * time.Second

// End ends the process and removes the files that were made for it. It first asks the process to
// exit, by the end of its standard input and by go-plugin's Shutdown; after half of grace, by
// SIGTERM. After grace, End kills it with everything that it started. End is called once.
func (p *Process) End(grace time.Duration) {
	p.output.Hurry()
	child := p.running()
	if child != nil && grace > 0 {
		child.closeStdin()
		term := time.AfterFunc(grace/2, func() { child.signal(syscall.SIGTERM) })
		defer term.Stop()
		kill := time.AfterFunc(grace, func() { child.signal(syscall.SIGKILL) })
		defer kill.Stop()
	} else {
		p.Kill(errors.New("ended"))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.disconnect(grace)
		if child != nil {
			<-child.exited
		}
	}()
	select {
	case <-ended:
	case <-time.After(grace + endGrace):
		// A process that SIGKILL does not end sleeps in the kernel. The daemon does not wait for
		// it.
		p.log.Error("handler process cannot be killed", "pid", strconv.Itoa(child.pid))
	}
	p.output.End()
	if err := p.made.remove(); err != nil {
		p.log.Warn("could not clean up after a handler", "error", err)
	}
}

// exitNews is how long the news of a process's end may take after its connection broke.
const exitNews = time.Second

// Explain says what became of the process if that is the reason for err, which came from the
// connection to it.
func (p *Process) Explain(err error) error {
	p.mu.Lock()
	why, child := p.why, p.child
	p.mu.Unlock()
	if why != nil && !errors.Is(why, errNoHandshake) {
		return why
	}
	if child != nil {
		select {
		case <-child.exited:
			e := &ExitError{Ending: child.ending(), last: p.output.LastError()}
			if p.socket() == "" {
				e.suspects = suspects(p.command)
			}
			return e
		case <-time.After(exitNews):
		}
	}
	if why != nil {
		return why
	}
	return err
}

// ExitError says how a process ended, and its last words.
type ExitError struct {
	Ending   error // the same for every process that ends like this one
	last     string
	suspects string
}

// Unquoted returns the error without the last words.
func (e *ExitError) Unquoted() error { return &ExitError{Ending: e.Ending, suspects: e.suspects} }

func (e *ExitError) Error() string {
	if e.last == "" {
		return e.Ending.Error() + e.suspects
	}
	last := strconv.Quote(strings.TrimSpace(e.last))
	return e.Ending.Error() + "; its last line on standard error: " + last + e.suspects
}

// suspects names what may keep a process from starting. A program that has too little memory may
// well end by a segmentation fault, or hang. One in a sandbox may say that a module does not exist.
func suspects(command Command) string {
	c := command.Confine
	var fields []string
	for _, f := range []struct {
		name  string
		asked bool
	}{
		{"user", c.User != ""},
		{"limits.memory", c.Limits.Memory > 0},
		{"limits.cpu", c.Limits.CPU > 0},
		{"limits.files", c.Limits.Files > 0},
		{"limits.processes", c.Limits.Processes > 0},
		{"sandbox" + closed(command), c.Sandbox},
	} {
		if f.asked {
			fields = append(fields, f.name)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return "; its confinement may keep it from starting: " + strings.Join(fields, ", ")
}

// closed returns what to add to files.read for a file that the command line names, in parentheses;
// "" if there is nothing. Interpreters look for modules in the folder of their script: they list it.
func closed(c Command) string {
	for i, path := range append([]string{c.Path}, c.Args...) {
		if !filepath.IsAbs(path) {
			path, _ = filepath.Abs(filepath.Join(c.Dir, path))
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		isProgram, dir := i == 0, filepath.Dir(path)
		switch {
		case !isProgram && !c.Confine.Opens(path):
			return fmt.Sprintf(" (add %s to files.read)", path)
		case !c.Confine.Opens(dir) && (!isProgram || isScript(path)):
			return fmt.Sprintf(" (to load modules beside %s, an interpreter lists its folder: "+
				"add %s to files.read)", filepath.Base(path), dir)
		}
	}
	return ""
}

// isScript reports whether a file begins with #!, and is run by an interpreter.
func isScript(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	var start [2]byte
	_, err = io.ReadFull(file, start[:])
	return err == nil && string(start[:]) == "#!"
}
