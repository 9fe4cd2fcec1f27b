package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	goplugin "github.com/hashicorp/go-plugin/runner"

	"github.com/informd/informd/plugins/host/cache"
	"github.com/informd/informd/plugins/host/confine"
)

// runner gives go-plugin a process of ours: it hands over a handshake line that was checked, no standard error, and an
// end of the process only once that can do no harm.
//
// go-plugin tells its goroutines of a process's end through a context; a process that ends while the connection is
// being made would leave the connection behind. So Wait holds the news back until release.
type runner struct {
	spec Spec
	opts Options
	exe  *executable
	logs *logs

	client *plugin.Client // go-plugin's; nil before connect

	offer       string   // the variable that offers TLS; empty: it is not offered
	cmdEnv      []string // what go-plugin wants in the environment
	socketDir   string   // what was made for the process; empty, or nil, if it did not come to that
	tempDir     string
	confinement *confine.Confinement
	cache       *cache.Server // nil if the handler may read nothing
	cacheEnds   sync.WaitGroup

	stdoutR   *io.PipeReader // the handshake line, to go-plugin
	stdoutW   *io.PipeWriter
	released  chan struct{}
	releasing sync.Once

	mu        sync.Mutex
	proc      *process
	handshake handshake
	conn      net.Conn // the connection to the process
	why       error    // the first reason why the process cannot be used any more
}

var _ goplugin.Runner = (*runner)(nil)

func newRunner(spec Spec, opts Options, exe *executable, logs *logs) *runner {
	r := &runner{spec: spec, opts: opts, exe: exe, logs: logs, released: make(chan struct{})}
	r.stdoutR, r.stdoutW = io.Pipe()
	return r
}

// prepare is go-plugin's RunnerFunc.
func (r *runner) prepare(_ hclog.Logger, cmd *exec.Cmd, tmpDir string) (goplugin.Runner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmdEnv, r.socketDir = cmd.Env, tmpDir
	return r, nil
}

func (r *runner) Start(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why == nil {
		r.why = r.start()
	}
	return r.why
}

// start starts the process, in what it is confined to. r.mu is held.
func (r *runner) start() (err error) {
	if r.tempDir, err = makeTempDir(r.opts.TempDir); err != nil {
		return err
	}
	own, err := r.own()
	if err != nil {
		return err
	}
	if r.confinement, err = confine.Prepare(r.spec.Confine, r.spec.Name, own); err != nil {
		return err
	}
	if r.cache, err = r.listen(); err != nil {
		return err
	}
	if uid, gid, ok := r.confinement.Owner(); ok {
		if r.cache != nil {
			if err := os.Chown(r.cache.Path(), uid, gid); err != nil {
				return fmt.Errorf("give a socket to the user that the handler runs as: %w", err)
			}
		}
		if err := giveTo(uid, gid, r.socketDir, r.tempDir); err != nil {
			return err
		}
	}
	r.proc, err = startProcess(start{
		name:        r.spec.Name,
		exe:         r.exe,
		args:        r.spec.Args,
		env:         r.environment(),
		dir:         r.spec.Dir,
		extra:       r.spec.Stdout,
		confinement: r.confinement,
		remove:      []string{r.socketDir, r.tempDir},
		limit:       r.opts.StartTimeout,
		stdout:      r.readStdout,
		stderr:      r.logs.stderr.readAll,
	})
	switch {
	case errors.Is(err, fs.ErrPermission):
		c := r.spec.Confine
		return fmt.Errorf("%w%s", err, suspects(confine.Spec{User: c.User, Sandbox: c.Sandbox}))
	case err == nil && r.cache != nil:
		r.cacheEnds.Go(func() { r.cache.Serve(r.proc.running.root()) })
	}
	return err
}

// listen makes the socket on which the process reads the cache, if it may.
func (r *runner) listen() (*cache.Server, error) {
	if len(r.spec.Read) == 0 {
		return nil, nil
	}
	reader := cache.Reader{Handler: r.spec.Name, Sources: r.spec.Read, Counts: r.opts.reads}
	return cache.Listen(filepath.Join(r.socketDir, cacheSocket), r.opts.Cache, reader, r.logs.log)
}

// cacheSocket is beside the process's own sockets, whose names go-plugin makes longer.
const cacheSocket = "cache"

// own is what the process needs of the file system in order to be a handler at all. The daemon's own working directory,
// which may be the root of everything, is not part of it.
func (r *runner) own() (confine.Own, error) {
	own := confine.Own{Read: []string{r.exe.path}, Write: []string{r.socketDir, r.tempDir}, Connect: len(r.spec.Read) > 0}
	if r.spec.Dir != "" {
		dir, err := filepath.Abs(r.spec.Dir)
		if err != nil {
			return own, err
		}
		own.Read = append(own.Read, dir)
	}
	return own, nil
}

// confined says what the process is confined to; empty if it is to nothing.
func (r *runner) confined() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.confinement.String()
}

// tidy removes what was made for the process, once it is gone.
func (r *runner) tidy() error {
	r.mu.Lock()
	dirs, confinement, server := []string{r.socketDir, r.tempDir}, r.confinement, r.cache
	r.mu.Unlock() // it may take its time
	server.Close()
	r.cacheEnds.Wait()
	return errors.Join(removeDirs(dirs...), confinement.Close())
}

// readStdout reads the handshake and, after it, whatever the process prints.
func (r *runner) readStdout(f *os.File) {
	h, rest, err := readHandshake(f, r.socketDir)
	if err == nil && h.tls && r.offer == "" {
		err = errors.New("it takes up an offer of TLS that it was not made") // go-plugin would not bear it
	}
	if err != nil {
		r.fail(err)
		_ = r.stdoutW.CloseWithError(err)
	} else {
		r.mu.Lock()
		r.handshake = h
		r.mu.Unlock()
		_, _ = io.WriteString(r.stdoutW, h.line+"\n") // go-plugin reads it, or closes its end
		_ = r.stdoutW.Close()
	}
	_, _ = r.logs.stdout.Write(rest)
	r.logs.stdout.readAll(f)
}

// fail notes why the process is of no use; the first reason counts. It reports whether this one is the first.
func (r *runner) fail(why error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != nil {
		return false
	}
	r.why = why
	return true
}

// kill ends the process and all that it started, at once, and the connection, which somebody else may hold open.
func (r *runner) kill(why error) {
	r.fail(why)
	r.mu.Lock()
	p, conn := r.proc, r.conn
	r.mu.Unlock()
	if p != nil {
		p.signal(syscall.SIGKILL)
	}
	if conn != nil {
		_ = conn.Close()
	}
}

// keep has conn end with the process. It returns why that is over already.
func (r *runner) keep(conn net.Conn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn = conn
	return r.why
}

func (r *runner) process() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc
}

// exited is closed once the process is gone. It was started.
func (r *runner) exited() <-chan struct{} { return r.process().exited }

// leaving: a process serves until it is told to end.
func (r *runner) leaving() <-chan struct{} { return nil }

func (r *runner) pid() int { return r.process().pid }

func (r *runner) lastLines() []string { return r.logs.lastLines() }

// socket is what the process listens on, once it has shaken hands.
func (r *runner) socket() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handshake.socket
}

func (r *runner) hasTLS() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handshake.tls
}

// release lets go-plugin hear of the process's end.
func (r *runner) release() { r.releasing.Do(func() { close(r.released) }) }

// exitNews is how long the news of a process's end may come after its connections broke.
const exitNews = time.Second

// failure explains err, which came from the connection to the process, by what is known of the process itself.
func (r *runner) failure(err error) error {
	r.mu.Lock()
	why, p := r.why, r.proc
	r.mu.Unlock()
	if why != nil && !errors.Is(why, errNoHandshake) {
		return why
	}
	if p != nil {
		select {
		case <-p.exited:
			e := &exitError{ending: p.ending(), last: r.logs.lastError()}
			if r.socket() == "" {
				e.suspects = suspects(r.spec.Confine)
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

// exitError says how a process ended and, beyond that, its last words. The latter differ from one time to the next.
type exitError struct {
	ending   error
	last     string
	suspects string
}

func (e *exitError) Error() string {
	if e.last == "" {
		return e.ending.Error() + e.suspects
	}
	return e.ending.Error() + "; its last line on standard error: " + strconv.Quote(strings.TrimSpace(e.last)) + e.suspects
}

// suspects names what may keep a process from starting, for the reason why it did not: a program that has too little
// memory may well end by a segmentation fault, or hang.
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

func (r *runner) Wait(context.Context) error {
	<-r.released
	<-r.process().exited
	return nil
}

// Kill leaves it to the session, which knows why and when, and whose wait has a bound.
func (r *runner) Kill(context.Context) error { return nil }

func (r *runner) ID() string {
	if p := r.process(); p != nil {
		return strconv.Itoa(p.pid)
	}
	return ""
}

func (r *runner) Name() string                    { return r.spec.Name }
func (r *runner) Stdout() io.ReadCloser           { return r.stdoutR }
func (r *runner) Stderr() io.ReadCloser           { return io.NopCloser(strings.NewReader("")) }
func (r *runner) Diagnose(context.Context) string { return "" }

func (r *runner) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

func (r *runner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
