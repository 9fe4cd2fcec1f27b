package handlertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host/cache"
)

// process is a handler as another program could start it: with a cookie, a directory for its socket, and pipes. All of
// a host up to the handshake is here. Of a handler that runs elsewhere it is the connection alone.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *firstLine
	exited chan struct{}
	conn   *grpc.ClientConn
	api    handlerpb.HandlerClient
}

const startPatience = 10 * time.Second // as informd's own

// byHand starts the handler, or connects to the one that runs elsewhere, has work done, and ends it.
func (t *trial) byHand(ctx context.Context, work func(context.Context, *process)) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if t.Remote != nil {
		p, err := t.dial()
		if err != nil {
			t.fail("connect: %v", err)
			return
		}
		defer p.end(t.patience)
		work(ctx, p)
		return
	}
	env := []string{handlerpb.CookieKey + "=" + handlerpb.CookieValue}
	server, err := t.listen()
	if err != nil {
		t.fail("%v", err)
		return
	}
	if server != nil {
		defer server.Close()
		env = append(env, handlerpb.EnvCacheSocket+"="+server.Address())
	}
	p, err := t.start(env...)
	if err != nil {
		t.fail("start: %v", err)
		return
	}
	defer p.end(t.patience)
	if server != nil {
		served := make(chan struct{})
		go func() { defer close(served); server.Serve(p.cmd.Process.Pid) }()
		defer func() { server.Close(); <-served }()
	}
	if err := p.connect(ctx, t.dir); err != nil {
		t.fail("%v", err)
		return
	}
	work(ctx, p)
}

// listen makes the socket where a handler that was started by hand reads the cache; nil if there is none.
func (t *trial) listen() (*cache.Server, error) {
	if len(t.cache) == 0 {
		return nil, nil
	}
	return cache.Listen(filepath.Join(t.dir, "cache"), t.cache, cache.Reader{Handler: t.spec.Name, Sources: t.spec.Read}, t.log)
}

// start starts the handler with more in its environment.
func (t *trial) start(env ...string) (*process, error) {
	c := exec.Command(t.Command[0], t.Command[1:]...)
	c.Dir = t.Dir
	for _, name := range []string{"PATH", "HOME"} {
		c.Env = append(c.Env, name+"="+os.Getenv(name))
	}
	c.Env = append(append(append(c.Env, "TMPDIR="+t.dir), t.Env...), // the last one of a name counts
		fmt.Sprintf("PLUGIN_PROTOCOL_VERSIONS=%d", handlerpb.ProtocolVersion),
		"PLUGIN_UNIX_SOCKET_DIR="+t.dir,
	)
	c.Env = append(c.Env, env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &process{cmd: c, exited: make(chan struct{}), stdout: &firstLine{came: make(chan struct{})}}
	c.Stdout, c.Stderr, c.WaitDelay = p.stdout, &t.logged, time.Second
	stdin, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	p.stdin = stdin
	go func() { defer close(p.exited); _ = c.Wait() }()
	return p, nil
}

// connect waits for the handshake and speaks gRPC from then on.
func (p *process) connect(ctx context.Context, dir string) error {
	select {
	case <-p.stdout.came:
	case <-p.exited:
		return errors.New("it exited before its handshake")
	case <-time.After(startPatience):
		return fmt.Errorf("no handshake within %v", startPatience)
	}
	line := p.stdout.text()
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 5 || parts[2] != "unix" || parts[4] != "grpc" || !strings.HasPrefix(parts[3], dir+"/") {
		return fmt.Errorf("its first line is %q, want 1|%d|unix|%s/…|grpc|", line, handlerpb.ProtocolVersion, dir)
	}
	conn, err := grpc.NewClient("unix:"+parts[3], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	p.conn, p.api = conn, handlerpb.NewHandlerClient(conn)
	return nil
}

// end asks the process to exit, and kills it with its group.
func (p *process) end(patience time.Duration) {
	if p.conn != nil {
		_ = p.conn.Close()
	}
	if p.cmd != nil {
		_ = p.stdin.Close()
		p.ended(patience)
	}
}

// ended tells whether the process exits within a time. It is gone then in any case.
func (p *process) ended(within time.Duration) bool {
	defer func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // what it left behind, or itself
		<-p.exited
	}()
	select {
	case <-p.exited:
		return true
	case <-time.After(within):
		return false
	}
}

// explains: without the cookie it was not informd that started it.
func (t *trial) explains(context.Context) {
	p, err := t.start()
	if err != nil {
		t.fail("start: %v", err)
		return
	}
	ended := p.ended(startPatience)
	_ = p.stdin.Close()
	switch {
	case !ended:
		t.fail("without %s in its environment it does not exit", handlerpb.CookieKey)
	case p.cmd.ProcessState.Success():
		t.fail("without %s in its environment it exits with status 0, as if its work were done", handlerpb.CookieKey)
	case len(t.logged.last()) == 0 && p.stdout.text() == "":
		t.fail("without %s in its environment it exits without a word", handlerpb.CookieKey)
	}
}

// endsWithHost: when informd is killed, the pipe on standard input ends.
func (t *trial) endsWithHost(ctx context.Context) {
	t.byHand(ctx, func(_ context.Context, p *process) {
		_ = p.stdin.Close()
		if !p.ended(t.patience) {
			t.fail("it lives on, %v after its standard input ended", t.patience)
		}
	})
}

// firstLine takes what a process writes, and keeps the first line, or the beginning of a long one.
type firstLine struct {
	came chan struct{} // closed when there is one

	mu   sync.Mutex
	line []byte
	full bool
}

const maxFirstLine = 16 << 10

func (f *firstLine) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return len(text), nil
	}
	line, _, found := bytes.Cut(text, []byte{'\n'})
	f.line = append(f.line, line...)
	if found || len(f.line) > maxFirstLine {
		f.line = f.line[:min(len(f.line), maxFirstLine)]
		f.full = true
		close(f.came)
	}
	return len(text), nil
}

func (f *firstLine) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.line)
}
