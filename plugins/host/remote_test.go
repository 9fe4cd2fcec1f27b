package host_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest/testca"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/serve"
)

func init() {
	modes["remote"] = func() {
		var h handler.Handler = &far{echo: &echo{}, concurrency: os.Getenv("CONCURRENCY")}
		if os.Getenv("QUIET") != "" {
			h = &echo{}
		}
		err := serve.Remote(h, serve.RemoteOptions{
			Address: os.Getenv("ADDRESS"), CertFile: os.Getenv("CERT"), KeyFile: os.Getenv("KEY"), ClientCAFile: os.Getenv("CA"),
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// far is the remote process's handler: an echo that prints what it does.
type far struct {
	*echo
	concurrency string
}

func (f *far) Describe() handler.Description {
	n, _ := strconv.Atoi(f.concurrency)
	return handler.Description{Name: "far", Version: "1", Concurrency: n}
}

func (f *far) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	fmt.Println("began", ev.Name, ev.Attempt)
	if strings.HasPrefix(ev.Name, "slow") {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
			fmt.Println("ended", ev.Name)
			return handler.Answer{}, ctx.Err()
		}
	}
	a, err := f.echo.Handle(ctx, ev)
	fmt.Println("did", ev.Name)
	return a, err
}

func (f *far) Drain(context.Context) error {
	fmt.Println("drained")
	return nil
}

// farm runs remote processes: it has their certificates, and the addresses of the handler's name.
type farm struct {
	t         testing.TB
	dir       string
	ca        *testca.CA
	port      uint16
	cert, key string // of the processes
	spec      host.RemoteSpec

	mu        sync.Mutex
	addresses []netip.AddrPort
	trouble   error
	lookUps   int
}

func newFarm(t testing.TB) *farm {
	dir := t.TempDir()
	f := &farm{t: t, dir: dir, ca: testca.New(t, dir, "ca"), port: freePort(t)}
	f.cert, f.key = f.ca.Issue(t, "oncall", "oncall.shop.svc")
	cert, key := f.ca.Issue(t, "informd")
	f.spec = host.RemoteSpec{
		Name: "oncall", Host: "oncall.shop.svc", Port: f.port, CA: f.ca.File, Cert: cert, Key: key,
		Concurrency: 4, Timeout: 10 * time.Second,
	}
	return f
}

// freePort returns a port that the test has to itself until it ends, on 127.0.0.1 and its
// neighbours. It lies below the ports that the kernel picks by itself. Tests in other processes
// leave it alone because a listener on an address that no endpoint uses marks it as taken.
func freePort(t testing.TB) uint16 {
	for range 1000 {
		port := 20000 + rand.IntN(10000)
		mark, err := net.Listen("tcp", fmt.Sprintf("127.77.0.1:%d", port))
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = mark.Close() })
		if _, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil { // nobody listens
			return uint16(port)
		}
	}
	t.Fatal("no port is free")
	return 0
}

func (f *farm) address(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(n)}), f.port)
}

// resolve sets the name's addresses.
func (f *farm) resolve(ns ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addresses, f.trouble = nil, nil
	for _, n := range ns {
		f.addresses = append(f.addresses, f.address(n))
	}
}

func (f *farm) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addresses, f.trouble = nil, err
}

func (f *farm) lookUp(context.Context) ([]netip.AddrPort, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookUps++
	return slices.Clone(f.addresses), f.trouble
}

// remoteProcess is one endpoint.
type remoteProcess struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended

	mu    sync.Mutex
	lines []string
}

// process starts an endpoint, and waits until it listens.
func (f *farm) process(n int, env ...string) *remoteProcess {
	f.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "MODE=remote", race, "ADDRESS="+f.address(n).String(), "CERT="+f.cert, "KEY="+f.key, "CA="+f.ca.File), env...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	p := &remoteProcess{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
		}
		_ = cmd.Wait()
	}()
	f.t.Cleanup(p.kill)
	waitFor(f.t, "a remote process to listen", func() bool {
		conn, err := net.Dial("tcp", f.address(n).String())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return p
}

func (p *remoteProcess) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *remoteProcess) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// did returns how many lines begin with this text.
func (p *remoteProcess) did(prefix string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// remote runs a Remote until the test ends.
func (f *farm) remote(opts host.Options) *host.Remote {
	f.t.Helper()
	opts.LookUpInterval = 50 * time.Millisecond
	r := host.NewRemote(f.spec, opts)
	r.SetLookUp(f.lookUp)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			f.t.Errorf("Run: %v", err)
		}
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

// runs waits until that many endpoints run and there is no other.
func runs(t *testing.T, r *host.Remote, n int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d endpoints to run", n), func() bool {
		s := r.Status()
		for _, e := range s.Endpoints {
			if e.Status.State != host.Running {
				return false
			}
		}
		return len(s.Endpoints) == n
	})
}

// pour keeps r busy with events from several callers, which send lost ones again, until stop is
// called. stop returns how many were done.
func pour(t *testing.T, r *host.Remote, name string) (stop func() int) {
	var done atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				ev := handler.Event{ID: fmt.Sprint(i, n), Rule: "r", Event: handler.Added, Name: fmt.Sprintf("%s-%d-%d", name, i, n), Attempt: 1}
				for {
					_, err := r.Handle(context.Background(), ev)
					if err == nil {
						done.Add(1)
						break
					}
					if !errors.Is(err, handler.ErrLost) {
						t.Errorf("%s: %v", ev.Name, err)
						return
					}
					ev.Attempt++
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() int {
		cancel()
		callers.Wait()
		return int(done.Load())
	}
}

// Two endpoints share the events. When one is killed, its events go to the other one. It works
// again once it is back.
func TestRemoteEndpointKilled(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	first, second := f.process(1), f.process(2)
	f.resolve(1, 2)
	r := f.remote(host.Options{Backoff: host.Backoff{Max: 200 * time.Millisecond}})
	runs(t, r, 2)
	if got, _ := r.Limit(); got != 8 {
		t.Errorf("the limit is %d, want 4 for each", got)
	}
	stop := pour(t, r, "slow")
	waitFor(t, "both to work", func() bool { return first.did("did") > 4 && second.did("did") > 4 })
	first.kill()
	waitFor(t, "the endpoint to be lost", func() bool { return limitOf(r) == 4 })
	before := second.did("did")
	waitFor(t, "the other to go on", func() bool { return second.did("did") > before+8 })
	again := f.process(1)
	waitFor(t, "the first to work again", func() bool { return again.did("did") > 4 })
	done := stop()
	waitFor(t, "each event that was acknowledged to have been done", func() bool {
		return first.did("did")+second.did("did")+again.did("did") >= done
	})
	s := r.Status()
	if s.State != host.Running || s.Counts.Lost == 0 || s.Restarts == 0 || len(s.Endpoints) != 2 || s.Handler.Name != "far" {
		t.Errorf("%+v", s)
	}
}

// An endpoint that shuts down, as in a rolling update, answers its events, gets no more, and loses
// none.
func TestRemoteEndpointEnds(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	first, second := f.process(1), f.process(2)
	f.resolve(1, 2)
	r := f.remote(host.Options{})
	runs(t, r, 2)
	stop := pour(t, r, "slow")
	waitFor(t, "both to work", func() bool { return first.did("did") > 0 && second.did("did") > 0 })
	_ = first.cmd.Process.Signal(syscall.SIGTERM)
	<-first.done
	if code := first.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if first.did("began") != first.did("did") || first.did("drained") != 1 {
		t.Errorf("it did not end in order: %q", first.lines)
	}
	stop()
	if s := r.Status(); s.Counts.Lost != 0 || s.Counts.TimedOut != 0 {
		t.Errorf("%+v", s.Counts)
	}
}

// When the name's addresses change, a new endpoint gets events, and one that left gets none but
// answers those that it has. A look-up that fails changes nothing.
func TestRemoteAddressesChange(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	first, second := f.process(1), f.process(2, "CONCURRENCY=1")
	f.fail(errors.New("oncall.shop.svc has no address"))
	r := f.remote(host.Options{})
	waitFor(t, "the reason", func() bool { return strings.Contains(r.Status().Reason, "no address") })
	if s := r.Status(); s.State != host.BackingOff {
		t.Errorf("%+v", s)
	}
	answered := make(chan error, 1) // an event that comes early waits
	r.Submit(t.Context(), &handler.Event{Rule: "r", Name: "early"}, func(_ handler.Answer, err error) { answered <- err })
	if s := r.Status(); s.Waiting != 1 {
		t.Errorf("%d wait", s.Waiting)
	}
	f.resolve(1)
	if err := <-answered; err != nil {
		t.Errorf("the early event: %v", err)
	}
	f.resolve(1, 2)
	runs(t, r, 2)
	if got, _ := r.Limit(); got != 5 {
		t.Errorf("the limit is %d, want 4 and 1", got)
	}
	stop := pour(t, r, "slow")
	waitFor(t, "the second to work", func() bool { return second.did("did") > 0 })
	f.resolve(2)
	runs(t, r, 1)
	if s := r.Status(); s.Endpoints[0].Address != f.address(2).String() {
		t.Errorf("%+v", s.Endpoints)
	}
	if first.did("drained") != 0 {
		t.Error("a process that goes on was drained")
	}
	f.fail(errors.New("SERVFAIL"))
	waitFor(t, "the failure to be told", func() bool { return strings.Contains(r.Status().Problem, "SERVFAIL") })
	runs(t, r, 1)
	stop()
	if s := r.Status(); s.Counts.Lost != 0 {
		t.Errorf("%+v", s.Counts)
	}
}

// An endpoint with a mistake shows that in its status, and gets no event.
func TestRemoteFailingEndpoints(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	other := testca.New(t, t.TempDir(), "other")
	strange, strangeKey := other.Issue(t, "strange", "oncall.shop.svc")
	wrong, wrongKey := f.ca.Issue(t, "wrong", "pager.shop.svc")

	good := f.process(1)
	plain, err := net.Listen("tcp", f.address(2).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	go func() {
		for {
			conn, err := plain.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	f.process(3, "CERT="+strange, "KEY="+strangeKey)
	f.process(4, "CERT="+wrong, "KEY="+wrongKey)
	f.process(5, "CA="+other.File)
	late, lateKey := f.ca.IssueAs(t, "late", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, "oncall.shop.svc")
	f.process(7, "CERT="+late, "KEY="+lateKey)
	client, clientKey := f.ca.IssueAs(t, "client", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, "oncall.shop.svc")
	f.process(8, "CERT="+client, "KEY="+clientKey)
	f.resolve(1, 2, 3, 4, 5, 6, 7, 8)
	r := f.remote(host.Options{})
	want := []string{"", "does not speak TLS", "not signed by an authority in tls.ca", "pager.shop.svc", "tls.cert was not accepted", "connection refused", "its certificate is valid from", "incompatible key usage"}
	waitFor(t, "all to have been tried", func() bool {
		s := r.Status()
		return len(s.Endpoints) == len(want) && s.State == host.Running &&
			!slices.ContainsFunc(s.Endpoints[1:], func(e host.Endpoint) bool { return e.Status.State != host.BackingOff })
	})
	s := r.Status()
	for i, e := range s.Endpoints {
		if !strings.Contains(e.Status.Reason, want[i]) {
			t.Errorf("%s: %q, want %q in it", e.Address, e.Status.Reason, want[i])
		}
	}
	if first, late := s.Endpoints[0].CertificateEnds, s.CertificateEnds(); !first.After(time.Now()) || !late.Before(time.Now()) {
		t.Errorf("the first certificate is valid until %v, that which expires first until %v", first, late)
	}
	for i := range 20 {
		if _, err := r.Handle(t.Context(), handler.Event{Rule: "r", Name: fmt.Sprint("a-", i), Attempt: 1}); err != nil {
			t.Error(err)
		}
	}
	waitFor(t, "all to be handled where they should be", func() bool { return good.did("did") == 20 })
}

// Certificates can be replaced while everything runs. New connections use and demand the new ones.
func TestRemoteRotation(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	first := f.process(1)
	f.resolve(1)
	r := f.remote(host.Options{Backoff: host.Backoff{Max: 200 * time.Millisecond}})
	runs(t, r, 1)
	next := testca.New(t, f.dir, "ca") // the same files
	next.Issue(t, "oncall", "oncall.shop.svc")
	next.Issue(t, "informd")
	if _, err := r.Handle(t.Context(), handler.Event{Rule: "r", Name: "a", Attempt: 1}); err != nil {
		t.Errorf("on the connection that there was: %v", err)
	}
	first.kill()
	f.process(1)
	waitFor(t, "a connection by the new certificates", func() bool { s := r.Status(); return s.Restarts > 0 && s.State == host.Running })
}

// informd gives up on an endpoint that hangs. Its events go to another one, and no two endpoints
// work on an event at the same time.
func TestRemoteEndpointHangs(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	first, second := f.process(1), f.process(2)
	f.resolve(1, 2)
	r := f.remote(host.Options{HealthInterval: 100 * time.Millisecond, HealthTimeout: time.Second})
	runs(t, r, 2)
	stop := pour(t, r, "slow")
	waitFor(t, "both to work", func() bool { return first.did("did") > 0 && second.did("did") > 0 })
	_ = first.cmd.Process.Signal(syscall.SIGSTOP)
	waitFor(t, "the endpoint to be given up", func() bool { return limitOf(r) == 4 && r.Status().Counts.Lost > 0 })
	before := second.did("did")
	waitFor(t, "the other to go on", func() bool { return second.did("did") > before+8 })
	stop()
}

// Two informds that share a handler need the same config, and events of one object wait for each
// other.
func TestRemoteShared(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	p := f.process(1)
	f.resolve(1)
	f.spec.Config = []byte(`{"Greeting":"hello"}`)
	one := f.remote(host.Options{})
	runs(t, one, 1)
	two := f.remote(host.Options{})
	runs(t, two, 1)
	ev := handler.Event{Rule: "r", Name: "slow", Attempt: 1}
	answered := make(chan error, 1)
	one.Submit(t.Context(), &ev, func(_ handler.Answer, err error) { answered <- err })
	waitFor(t, "it to begin", func() bool { return p.did("began slow") == 1 })
	if _, err := two.Handle(t.Context(), ev); err != nil {
		t.Errorf("a second event of the object: %v", err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	waitFor(t, "both to be said", func() bool { return p.did("did slow") == 2 })
	if want := []string{"began slow 1", "did slow", "began slow 1", "did slow"}; !slices.Equal(p.said(), want) {
		t.Errorf("got %q, want %q", p.said(), want)
	}
	f.spec.Config = []byte(`{"Greeting":"good day"}`)
	three := f.remote(host.Options{})
	waitFor(t, "the third to be turned away", func() bool { return strings.Contains(three.Status().Reason, "in use with another config") })
	if err := host.TryRemote(t.Context(), f.spec, host.Options{}); err == nil || !strings.Contains(err.Error(), "oncall.shop.svc") {
		t.Errorf("a name that there is not: %v", err)
	}
	there := f.spec
	there.Host, there.ServerName = "127.0.0.1", "oncall.shop.svc"
	if err := host.TryRemote(t.Context(), there, host.Options{}); err != nil {
		t.Error(err)
	}
}

// An endpoint that leaves with a slow event reports no problem with its health.
func TestRemoteEndpointEndsSlowly(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.spec.Timeout = 2 * time.Second
	first := f.process(1)
	f.resolve(1)
	log := &recorder{}
	r := f.remote(host.Options{Logger: log.logger(), HealthInterval: 20 * time.Millisecond})
	runs(t, r, 1)
	answered := make(chan error, 1)
	r.Submit(t.Context(), &handler.Event{Rule: "r", Name: "wait", Attempt: 1}, func(_ handler.Answer, err error) { answered <- err })
	waitFor(t, "it to begin", func() bool { return first.did("began") == 1 })
	_ = first.cmd.Process.Signal(syscall.SIGTERM)
	if err := <-answered; errors.Is(err, handler.ErrLost) {
		t.Error(err)
	}
	<-first.done
	if lines := log.lines(); slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "handler reports a problem") }) {
		t.Errorf("%q", lines)
	}
}

// A handler that counts as running already has its places: whoever learns that it runs may count on
// them.
func TestRunningHasPlaces(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.process(1, "CONCURRENCY=2") // of the 4 that the operator allows, also while nothing runs
	f.resolve(1)
	var r *host.Remote
	began := make(chan struct{})
	limits := make(chan int, 1)
	log := &recorder{hear: func(message string) {
		if message == "handler ready" {
			<-began // r is set
			select {
			case limits <- limitOf(r):
			default: // it has begun another session
			}
		}
	}}
	r = f.remote(host.Options{Logger: log.logger()})
	close(began)
	waitFor(t, "it to run", func() bool { return len(limits) > 0 })
	if got := <-limits; got != 2 {
		t.Errorf("the limit is %d, want 2", got)
	}
}

func limitOf(r *host.Remote) int {
	n, _ := r.Limit()
	return n
}
