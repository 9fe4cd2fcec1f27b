package handlertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/informd/informd/plugins/handlerpb"
)

// process is a handler that the suite started, or a connection to one that runs elsewhere, whose
// cmd is nil.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *firstLine
	stderr *lineWriter
	exited chan struct{} // closed when cmd has exited
	dir    string        // for its socket; its own
	cache  *cacheServer  // what it reads; nil: nothing

	conn *grpc.ClientConn
	tls  *handshaker // of a remote handler
	api  handlerpb.HandlerClient
}

// How long the steps of a start may take: as long as informd gives them.
const (
	startPatience     = 10 * time.Second
	describePatience  = 5 * time.Second
	configurePatience = 10 * time.Second
)

// atLeast returns a time limit, or the one of Options.Debug.
func (t *trial) atLeast(limit time.Duration) time.Duration {
	if t.Debug {
		return debugTimeout
	}
	return limit
}

// The environment variables of go-plugin's handshake.
const (
	envVersions   = "PLUGIN_PROTOCOL_VERSIONS"
	envSocketDir  = "PLUGIN_UNIX_SOCKET_DIR"
	envClientCert = "PLUGIN_CLIENT_CERT"
)

// open starts the handler and connects to it, or connects to the one that runs elsewhere. With an
// offer it speaks TLS if the handler takes up the offer. The caller ends the process.
func (t *trial) open(ctx context.Context, offer *offer, cache *cacheService) (*process, error) {
	if t.Remote != nil {
		return t.dial(ctx)
	}
	env := []string{
		handlerpb.CookieKey + "=" + handlerpb.CookieValue, handlerpb.EnvLogLevel + "=debug",
	}
	if offer != nil {
		env = append(env, envClientCert+"="+offer.variable)
	}
	p, err := t.start(cache, env...)
	if err != nil {
		return nil, err
	}
	if err := p.connect(ctx, offer, t.atLeast(startPatience)); err != nil {
		if why := p.explain(err); !errors.Is(err, errNoHandshake) {
			err = why
		} else if !errors.Is(why, errNoHandshake) {
			err = fmt.Errorf("%w; %w", err, why)
		}
		p.end(0)
		return nil, err
	}
	if err := p.readPrinted(); err != nil {
		p.end(0)
		return nil, err
	}
	return p, nil
}

// start starts the executable, with more in its environment.
func (t *trial) start(cache *cacheService, env ...string) (*process, error) {
	dir, err := os.MkdirTemp(t.dir, "p")
	if err != nil {
		return nil, err
	}
	temp := filepath.Join(t.dir, "tmp")
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return nil, err
	}
	p := &process{
		dir: dir, exited: make(chan struct{}),
		stdout: &firstLine{came: make(chan struct{}), rest: &lineWriter{to: &t.logged}},
		stderr: &lineWriter{to: &t.logged},
	}
	if cache != nil {
		if p.cache, err = serveCache(filepath.Join(dir, "cache"), cache); err != nil {
			return nil, err
		}
		env = append(env, handlerpb.EnvCacheSocket+"=unix:"+p.cache.path)
	}
	c := exec.Command(t.Command[0], t.Command[1:]...)
	c.Dir = t.Dir
	for _, name := range []string{"PATH", "HOME"} {
		c.Env = append(c.Env, name+"="+os.Getenv(name))
	}
	c.Env = append(append(append(c.Env, "TMPDIR="+temp), t.Env...), // the last one of a name counts
		envVersions+"="+strconv.Itoa(handlerpb.ProtocolVersion),
		envSocketDir+"="+dir,
	)
	c.Env = append(c.Env, env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Stdout, c.Stderr, c.WaitDelay = p.stdout, p.stderr, time.Second
	stdin, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		p.cache.close()
		return nil, startError(c.Path, err)
	}
	p.cmd, p.stdin = c, stdin
	go func() {
		defer close(p.exited)
		_ = c.Wait()
		p.stderr.flush()
	}()
	return p, nil
}

// startError says why the system does not execute a program.
func startError(path string, err error) error {
	_, missing := os.Stat(path)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%q is not a program in the PATH; "+
			"the path of a file has a slash, as ./%s", path, path)
	case errors.Is(missing, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", path)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s cannot be executed: it is built for another platform, "+
			"or is a script without #! line", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s cannot be executed: the interpreter or loader that it names, "+
			"or its working directory, does not exist", path)
	}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("%s cannot be executed: %w", path, err)
}

var errNoHandshake = errors.New("its first line on standard output is not a handshake")

// connect waits for the handshake line:
//
//	CORE|VERSION|unix|SOCKET|grpc|CERTIFICATE
//
// The certificate is there if the handler took up the offer of TLS. From then on p speaks gRPC.
func (p *process) connect(ctx context.Context, offer *offer, patience time.Duration) error {
	select {
	case <-p.stdout.came:
	case <-p.exited:
		select {
		case <-p.stdout.came: // it printed a line, and exited
		default:
			return errors.New("it closed its standard output without a handshake: is it a handler?")
		}
	case <-time.After(patience):
		return fmt.Errorf("it was not ready within %v of its start", patience)
	case <-ctx.Done():
		return ctx.Err()
	}
	line := strings.TrimSpace(p.stdout.text())
	parts := strings.Split(line, "|")
	if _, err := strconv.Atoi(parts[0]); err != nil || len(parts) < 5 {
		return fmt.Errorf("%w but %q: is it a handler, and does it print nothing before it serves?",
			errNoHandshake, line)
	}
	socket := filepath.Join(p.dir, filepath.Base(parts[3]))
	switch {
	case parts[0] != "1":
		return fmt.Errorf("it speaks version %s of go-plugin's core protocol, informd speaks 1",
			parts[0])
	case parts[1] != strconv.Itoa(handlerpb.ProtocolVersion):
		return fmt.Errorf("it speaks version %q of the handler protocol, informd speaks %d",
			parts[1], handlerpb.ProtocolVersion)
	case parts[4] != "grpc":
		return fmt.Errorf("it speaks %q, not grpc", parts[4])
	case parts[2] != "unix" || filepath.Clean(parts[3]) != socket:
		return fmt.Errorf("it listens on %s %q, not on a unix socket in the directory "+
			"that %s names", parts[2], parts[3], envSocketDir)
	}
	secure := insecure.NewCredentials()
	if len(parts) > 5 && parts[5] != "" {
		if offer == nil {
			return errors.New("it takes up an offer of TLS that it was not made")
		}
		config, err := offer.config(parts[5])
		if err != nil {
			return err
		}
		secure = credentials.NewTLS(config)
	}
	options := append(clientOptions(), grpc.WithTransportCredentials(secure))
	conn, err := grpc.NewClient("unix:"+socket, options...)
	if err != nil {
		return err
	}
	p.conn, p.api = conn, handlerpb.NewHandlerClient(conn)
	return nil
}

// config returns the TLS configuration for a handler that answered the offer with a certificate.
func (o *offer) config(certificate string) (*tls.Config, error) {
	der, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(certificate, "="))
	if err != nil {
		return nil, fmt.Errorf("the certificate in its handshake is not base64: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("the certificate in its handshake: %w", err)
	}
	config := o.tls.Clone()
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AddCert(cert)
	return config, nil
}

func clientOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(handlerpb.MaxResponseBytes),
			grpc.MaxCallSendMsgSize(handlerpb.MaxRequestBytes)),
	}
}

// readPrinted logs what a handler prints after its handshake, which go-plugin's servers send over
// the connection. One that nobody reads would block the handler. Handlers without the service are
// fine.
func (p *process) readPrinted() error {
	if p.cmd == nil {
		return nil
	}
	stream, err := p.conn.NewStream(context.Background(),
		&grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil {
		return p.explain(fmt.Errorf("connect: %w", err))
	}
	go func() { // it ends with the connection
		if stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
			return
		}
		for {
			var message emptypb.Empty // go-plugin's own type is internal: its fields stay unknown
			if stream.RecvMsg(&message) != nil {
				return
			}
			_, _ = p.stdout.rest.Write(printed(message.ProtoReflect().GetUnknown()))
		}
	}()
	return nil
}

// explain says why a process is of no use: by its end, if that is why err came, and its last words.
func (p *process) explain(err error) error {
	if p.cmd == nil {
		return p.tls.explain(err)
	}
	select {
	case <-p.exited:
	case <-time.After(exitNews):
		return err
	}
	state, why := p.cmd.ProcessState, ""
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		why = fmt.Sprintf("it was ended by the signal %q", status.Signal())
	} else {
		why = fmt.Sprintf("it exited with status %d", state.ExitCode())
	}
	if last := p.stderr.lastLine(); last != "" {
		why += "; its last line on standard error: " + strconv.Quote(last)
	}
	return errors.New(why)
}

// exitNews is how long the news of a process's end may come after its connection broke.
const exitNews = time.Second

// shutdownPatience bounds go-plugin's Shutdown call.
const shutdownPatience = 2 * time.Second

// end asks the process to exit: by closing its standard input and by go-plugin's Shutdown, then,
// after half the grace, by SIGTERM. After the whole grace it kills the process and its group.
// It reports whether the process exited by itself or at SIGTERM. A second call does nothing.
func (p *process) end(grace time.Duration) (exited bool) {
	if p.cmd != nil && grace > 0 {
		_ = p.stdin.Close()
		term := time.AfterFunc(grace/2, func() { _ = p.cmd.Process.Signal(syscall.SIGTERM) })
		defer term.Stop()
		if p.conn != nil {
			ctx, cancel := context.WithTimeout(context.Background(), min(grace, shutdownPatience))
			_ = p.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown",
				&emptypb.Empty{}, &emptypb.Empty{})
			cancel()
		}
	}
	if p.conn != nil {
		_ = p.conn.Close()
	}
	if p.cmd == nil {
		return true
	}
	exited = p.exitsWithin(grace)
	_ = p.stdin.Close()
	p.cache.close()
	return exited
}

// exitsWithin reports whether the process exits within a time. It is gone afterwards in any case.
func (p *process) exitsWithin(limit time.Duration) bool {
	defer func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // what it left behind, or itself
		<-p.exited
	}()
	select {
	case <-p.exited:
		return true
	case <-time.After(limit):
		return false
	}
}

// firstLine keeps the first line that a process writes, or the beginning of a long one, and passes
// on the rest.
type firstLine struct {
	came chan struct{} // closed when there is one
	rest io.Writer

	mu   sync.Mutex
	line []byte // guarded by mu
	full bool   // guarded by mu
}

const maxFirstLine = 16 << 10 // bytes

func (f *firstLine) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return f.rest.Write(text)
	}
	line, rest, found := bytes.Cut(text, []byte{'\n'})
	f.line = append(f.line, line...)
	if found || len(f.line) > maxFirstLine {
		f.line = f.line[:min(len(f.line), maxFirstLine)]
		f.full = true
		close(f.came)
		_, _ = f.rest.Write(rest)
	}
	return len(text), nil
}

func (f *firstLine) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.line)
}
