package process

import (
	"context"
	"errors"
	"fmt"
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
	TempDir       string        // parent of the directories for temporary files; empty: the system's
	Cache         cache.Sources // what Command.Read is about
	Reads         *cache.Counts // of the reads
	StartTimeout  time.Duration // from launch to connection
	LogLinesBurst int
	LogLinesRate  int
}

// Process is one process of a handler.
type Process struct {
	command      Command
	surroundings Surroundings
	log          *slog.Logger
	program      *executable.Program
	output       *output.Log
	runDir       string

	shaken  chan error // delivers the handshake's result once
	syncing sync.WaitGroup

	// Set by start, which runs once; empty or nil if it does not get that far.
	offer       string // the variable that offers TLS
	socketDir   string
	tempDir     string
	confinement *confine.Confinement
	cache       *cache.Server // nil if the process may read nothing
	cacheEnds   sync.WaitGroup

	// mu guards the fields below, and those above while start sets them. No other lock is taken under it.
	mu        sync.Mutex
	child     *child
	handshake handshake
	grpc      *grpc.ClientConn
	conn      net.Conn // to the process, below grpc
	why       error    // the first reason why the process is of no use any more
}

// New finds the program and the directory for sockets. It launches nothing. The caller calls Connect,
// and End in any case.
func New(ctx context.Context, command Command, surroundings Surroundings, log *slog.Logger) (*Process, error) {
	dir, err := findRunDir(surroundings.RunDir)
	if err != nil {
		return nil, err
	}
	program, err := executable.Open(ctx, command.Path, command.SHA256)
	if err != nil {
		return nil, err
	}
	p := &Process{
		command: command, surroundings: surroundings, log: log, program: program, runDir: dir,
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.why == nil {
		p.why = p.startLocked()
	}
	return p.why
}

// startLocked is called with p.mu held.
func (p *Process) startLocked() (err error) {
	if err := p.makeSocketDir(); err != nil {
		return err
	}
	if p.tempDir, err = makeTempDir(p.surroundings.TempDir); err != nil {
		return err
	}
	own, err := p.own()
	if err != nil {
		return err
	}
	if p.confinement, err = confine.Prepare(p.command.Confine, p.command.Name, own); err != nil {
		return err
	}
	if p.cache, err = p.listen(); err != nil {
		return err
	}
	if uid, gid, ok := p.confinement.Owner(); ok {
		if p.cache != nil {
			if err := os.Chown(p.cache.Path(), uid, gid); err != nil {
				return fmt.Errorf("give a socket to the user that the handler runs as: %w", err)
			}
		}
		if err := giveTo(uid, gid, p.socketDir, p.tempDir); err != nil {
			return err
		}
	}
	p.child, err = startChild(childSpec{
		name:        p.command.Name,
		program:     p.program,
		args:        p.command.Args,
		env:         p.environment(),
		dir:         p.command.Dir,
		extra:       p.command.Stdout,
		confinement: p.confinement,
		remove:      []string{p.socketDir, p.tempDir},
		limit:       p.surroundings.StartTimeout,
		stdout:      p.readStdout,
		stderr:      p.output.ReadStderr,
	})
	switch {
	case errors.Is(err, fs.ErrPermission):
		c := p.command.Confine
		return fmt.Errorf("%w%s", err, suspects(confine.Spec{User: c.User, Sandbox: c.Sandbox}))
	case err == nil && p.cache != nil:
		p.cacheEnds.Go(func() { p.cache.Serve(p.child.os.root()) })
	}
	return err
}

// listen makes the socket on which the process reads the cache, if it may.
func (p *Process) listen() (*cache.Server, error) {
	if len(p.command.Read) == 0 {
		return nil, nil
	}
	reader := cache.Reader{Handler: p.command.Name, Sources: p.command.Read, Counts: p.surroundings.Reads}
	return cache.Listen(filepath.Join(p.socketDir, cacheSocket), p.surroundings.Cache, reader, p.log)
}

// cacheSocket stands beside the process's own sockets, to whose names go-plugin adds a number.
const cacheSocket = "cache"

// own returns what the process needs of the file system to be a handler at all. The daemon's own
// working directory, which may be the root, is not part of it.
func (p *Process) own() (confine.Own, error) {
	own := confine.Own{Read: []string{p.program.Path}, Write: []string{p.socketDir, p.tempDir}, Connect: len(p.command.Read) > 0}
	if p.command.Dir != "" {
		dir, err := filepath.Abs(p.command.Dir)
		if err != nil {
			return own, err
		}
		own.Read = append(own.Read, dir)
	}
	return own, nil
}

// readStdout reads the handshake and, after it, whatever the process prints.
func (p *Process) readStdout(f *os.File) {
	h, rest, err := readHandshake(f, p.socketDir)
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

// Kill ends the process, everything that it started, and the connection, which another process may hold
// open. The first reason counts.
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

// Leaving returns nil: a process serves until it is told to end.
func (p *Process) Leaving() <-chan struct{} { return nil }

// PID is the process id. Connect has succeeded.
func (p *Process) PID() int { return p.running().pid }

// LastLines returns the last lines on standard error, oldest first.
func (p *Process) LastLines() []string { return p.output.LastLines() }

// Confined says what the process is confined to; empty for nothing.
func (p *Process) Confined() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.confinement.String()
}

// socket returns the path that the process listens on; empty before the handshake.
func (p *Process) socket() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handshake.socket
}

// endGrace is how long End waits for a process that was killed.
const endGrace = 10 * time.Second

// End ends the process and removes what was made for it. For grace the process is asked to exit, by the
// end of its standard input and by go-plugin's Shutdown; at half of it, by SIGTERM. Then it is killed
// with everything that it started. End is called once.
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
		// A process that SIGKILL does not end sleeps in the kernel. The daemon does not wait for it.
		p.log.Error("handler process cannot be killed", "pid", strconv.Itoa(child.pid))
	}
	p.output.End()
	if err := p.tidy(); err != nil {
		p.log.Warn("handler left something behind", "error", err)
	}
}

// tidy removes what was made for the process, once that is gone.
func (p *Process) tidy() error {
	p.mu.Lock()
	dirs, confinement, server := []string{p.socketDir, p.tempDir}, p.confinement, p.cache
	p.mu.Unlock() // removing may take its time
	server.Close()
	p.cacheEnds.Wait()
	return errors.Join(removeDirs(dirs...), confinement.Close())
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
				e.suspects = suspects(p.command.Confine)
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

func (e *ExitError) Error() string {
	if e.last == "" {
		return e.Ending.Error() + e.suspects
	}
	return e.Ending.Error() + "; its last line on standard error: " + strconv.Quote(strings.TrimSpace(e.last)) + e.suspects
}

// suspects names the limits that may keep a process from starting. A program that has too little memory
// may well end by a segmentation fault, or hang.
func suspects(c confine.Spec) string {
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
		{"sandbox", c.Sandbox},
	} {
		if f.asked {
			fields = append(fields, f.name)
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return "; what it is confined to may keep it from starting: " + strings.Join(fields, ", ")
}
