//go:build go1.25

package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest/testca"
	"github.com/informd/informd/plugins/handlerpb"
)

// configured counts how often it is.
type configured struct {
	handler.Func
	times int
}

func (c *configured) Configure(_ context.Context, config json.RawMessage) error {
	c.times++
	if string(config) == `"bad"` {
		return errors.New("no such config")
	}
	return nil
}

// A remote handler gets each config once, and no other one while somebody uses it.
func TestSharedConfig(t *testing.T) {
	c := &configured{}
	s := &service{handler: c, shared: newShared()}
	ctx := called(t)
	configure := func(config string) (problems int, code codes.Code) {
		t.Helper()
		resp, err := s.Configure(ctx, &handlerpb.ConfigureRequest{Config: []byte(config)})
		return len(resp.GetProblems()), status.Code(err)
	}
	if s.shared.begin(ctx) {
		t.Error("a stream began before there was a config")
	}
	for _, step := range []struct {
		what, config string
		inUse        bool
		problems     int
		code         codes.Code
		times        int
	}{
		{"the first", `"a"`, false, 0, codes.OK, 1},
		{"the same again", `"a"`, false, 0, codes.OK, 1},
		{"the same, in use", `"a"`, true, 0, codes.OK, 1},
		{"another, in use", `"b"`, true, 0, codes.FailedPrecondition, 1},
		{"another", `"b"`, false, 0, codes.OK, 2},
		{"one that is refused", `"bad"`, false, 1, codes.OK, 3},
		{"the one before, which it may have forgotten", `"b"`, false, 0, codes.OK, 4},
	} {
		if step.inUse && !s.shared.begin(ctx) {
			t.Errorf("%s: no stream could begin", step.what)
		}
		if problems, code := configure(step.config); problems != step.problems || code != step.code || c.times != step.times {
			t.Errorf("%s: %d problems, %v, configured %d times; want %d, %v, %d", step.what, problems, code, c.times, step.problems, step.code, step.times)
		}
		if step.inUse {
			s.shared.end()
		}
	}
	configure(`"bad"`)
	if s.shared.begin(ctx) {
		t.Error("a stream began after the config was refused")
	}
}

// called is the context of the calls on one connection.
func called(t *testing.T) context.Context {
	return peer.NewContext(t.Context(), &peer.Peer{AuthInfo: &caller{}})
}

// Who configured the handler does not get to use it with another config, which somebody brought
// since.
func TestSharedConfigBelongsToTheCaller(t *testing.T) {
	s := &service{handler: &configured{}, shared: newShared()}
	one, two := called(t), called(t)
	for _, c := range []struct {
		ctx    context.Context
		config string
	}{{one, `"a"`}, {two, `"b"`}} {
		if resp, err := s.Configure(c.ctx, &handlerpb.ConfigureRequest{Config: []byte(c.config)}); err != nil || len(resp.GetProblems()) > 0 {
			t.Fatalf("%v, %v", resp, err)
		}
	}
	if s.shared.begin(one) {
		t.Error("a stream began with another config than its caller's")
	}
	if !s.shared.begin(two) {
		t.Error("no stream began")
	}
	if _, err := s.Configure(one, &handlerpb.ConfigureRequest{Config: []byte(`"a"`)}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("while it is in use: %v", err)
	}
	if _, err := s.Configure(one, &handlerpb.ConfigureRequest{Config: []byte(`"b"`)}); err != nil || !s.shared.begin(one) {
		t.Errorf("the same config does not do: %v", err)
	}
}

// busy is a handler that takes two events at once, and notes how many it has.
type busy struct {
	handler.Func
	mu       sync.Mutex
	now, top int
}

func (*busy) Describe() handler.Description { return handler.Description{Concurrency: 2} }

func (b *busy) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	b.add(1)
	defer b.add(-1)
	if ev.Name == "goexit" {
		runtime.Goexit()
	}
	time.Sleep(5 * time.Millisecond)
	return handler.Answer{}, nil
}

func (b *busy) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now += n
	b.top = max(b.top, b.now)
}

// However many connections there are, the handler gets no more events at once than it takes, and
// never two of one object.
func TestSharedEventsWait(t *testing.T) {
	for _, c := range []struct {
		what     string
		top      int
		describe bool
		name     func(stream, n int) string
	}{
		{"more than it takes", 2, true, func(stream, n int) string { return fmt.Sprint(stream, n) }},
		{"the same object", 1, false, func(int, int) string { return "one" }},
		{"some that end their goroutines", 2, true, func(stream, n int) string {
			if n == 0 && stream == 0 {
				return "goexit"
			}
			return fmt.Sprint(stream, n)
		}},
	} {
		h := &busy{}
		s := &service{handler: h, shared: newShared()}
		s.configured.Store(true)
		s.shared.taken = true
		client := connect(t, s)
		if c.describe {
			if _, err := client.Describe(t.Context(), &handlerpb.DescribeRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		var streams sync.WaitGroup
		for stream := range 5 {
			streams.Go(func() {
				d, err := client.Deliver(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for n := range 10 {
					events := []*handlerpb.Event{{Seq: uint64(n + 1), Rule: "r", Name: c.name(stream, n), TimeLimit: durationpb.New(30 * time.Second)}}
					if err := d.Send(&handlerpb.DeliverRequest{Events: events}); err != nil {
						t.Error(err)
						return
					}
					resp, err := d.Recv()
					if err != nil {
						t.Error(err)
						return
					}
					for _, a := range resp.GetAnswers() {
						if reason := a.GetRetry().GetReason(); reason != goexit {
							t.Errorf("%s: %v", c.what, a)
						}
					}
				}
			})
		}
		streams.Wait()
		if h.top > c.top || h.now != 0 {
			t.Errorf("%s: it had %d at once, want %d; %d at the end", c.what, h.top, c.top, h.now)
		}
	}
}

// What waits for another connection's event does so within its time limit.
func TestSharedEventsWaitWithinTheirLimit(t *testing.T) {
	s := newShared()
	s.bound(1)
	if err := s.take(t.Context(), object{name: "a"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for _, name := range []string{"a", "b", "b"} {
		if err := s.take(ctx, object{name: name}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	s.free(object{name: "a"})
	for _, name := range []string{"b", "a"} {
		if err := s.take(t.Context(), object{name: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.free(object{name: name})
	}
}

// secured serves h until the test ends, and returns its address.
func secured(t *testing.T, h handler.Handler, o RemoteOptions) (address string, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // finds a port that is free
	if err != nil {
		t.Fatal(err)
	}
	o.Address = l.Addr().String()
	_ = l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- remote(ctx, h, o) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if conn, err := net.Dial("tcp", o.Address); err == nil {
			_ = conn.Close()
			return o.Address, end
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// client connects with a configuration for TLS.
func client(t *testing.T, address string, config *tls.Config) handlerpb.HandlerClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return handlerpb.NewHandlerClient(conn)
}

// Who has no certificate of the authority's for a client gets nowhere, whatever else is tried; and
// what is trusted is what is in the files by then.
func TestRemoteTurnsAway(t *testing.T) {
	dir := t.TempDir()
	ca := testca.New(t, dir, "ca")
	o := RemoteOptions{ClientCAFile: ca.File}
	o.CertFile, o.KeyFile = ca.Issue(t, "oncall", "localhost")
	address, _ := secured(t, handler.Func(nil), o)
	roots := x509.NewCertPool()
	authority, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	roots.AppendCertsFromPEM(authority)
	shows := func(cert, key string) *tls.Config {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{RootCAs: roots, ServerName: "localhost", Certificates: []tls.Certificate{pair}, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	}
	asks := func(config *tls.Config) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := client(t, address, config).Describe(ctx, &handlerpb.DescribeRequest{})
		return err
	}

	for range 200 { // they say nothing
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	good := shows(ca.Issue(t, "informd"))
	if err := asks(good); err != nil {
		t.Errorf("who may: %v", err)
	}
	old := good.Clone()
	old.MaxVersion = tls.VersionTLS12
	for what, config := range map[string]*tls.Config{
		"no certificate":           {RootCAs: roots, ServerName: "localhost"},
		"another authority":        shows(testca.New(t, t.TempDir(), "other").Issue(t, "informd")),
		"one that is over":         shows(ca.IssueAs(t, "late", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })),
		"one that is for a server": shows(ca.IssueAs(t, "server", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })),
		"an old TLS":               old,
	} {
		if err := asks(config); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
	}

	whole, err := os.ReadFile(o.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.CertFile, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := asks(good); status.Code(err) != codes.Unavailable {
		t.Errorf("with half a certificate: %v", err)
	}
	if err := os.WriteFile(o.CertFile, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := asks(good); err != nil {
		t.Errorf("with the whole one again: %v", err)
	}
	testca.New(t, dir, "ca") // another authority in the same file
	if err := asks(good); status.Code(err) != codes.Unavailable {
		t.Errorf("of an authority that is trusted no more, with a session that was: %v", err)
	}
}

// drained records the order of its calls.
type drained struct {
	began chan struct{}
	goOn  chan struct{}
	mu    sync.Mutex
	log   []string
}

func (d *drained) Handle(context.Context, handler.Event) (handler.Answer, error) {
	d.began <- struct{}{}
	<-d.goOn
	d.note("handled")
	return handler.Answer{}, nil
}

func (d *drained) Drain(context.Context) error {
	d.note("drained")
	panic("in the end")
}

func (d *drained) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, what)
}

// At the end, every informd has the answers that it waits for, then the handler is drained, once.
func TestRemoteEndsGracefully(t *testing.T) {
	dir := t.TempDir()
	ca := testca.New(t, dir, "ca")
	o := RemoteOptions{ClientCAFile: ca.File}
	o.CertFile, o.KeyFile = ca.Issue(t, "oncall", "localhost")
	d := &drained{began: make(chan struct{}), goOn: make(chan struct{})}
	address, end := secured(t, d, o)
	authority, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	pair, err := tls.LoadX509KeyPair(ca.Issue(t, "informd"))
	if err != nil {
		t.Fatal(err)
	}
	const informds = 3
	var streams []handlerpb.Handler_DeliverClient
	for n := range informds {
		c := client(t, address, &tls.Config{RootCAs: roots, ServerName: "localhost", Certificates: []tls.Certificate{pair}})
		if _, err := c.Configure(t.Context(), &handlerpb.ConfigureRequest{}); err != nil {
			t.Fatal(err)
		}
		s, err := c.Deliver(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&handlerpb.DeliverRequest{Events: []*handlerpb.Event{{Seq: 1, Rule: "r", Name: fmt.Sprint(n)}}}); err != nil {
			t.Fatal(err)
		}
		<-d.began
		streams = append(streams, s)
		if _, err := c.Drain(t.Context(), &handlerpb.DrainRequest{}); err != nil { // as at the end of an informd
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() { defer close(ended); end() }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // until it has begun to end
		conn, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("it does not end")
		}
	}
	close(d.goOn)
	for _, s := range streams {
		resp, err := s.Recv()
		if err != nil || len(resp.GetDone()) != 1 {
			t.Errorf("%v, %v", resp, err)
		}
		_ = s.CloseSend()
	}
	<-ended
	if want := "[handled handled handled drained]"; fmt.Sprint(d.log) != want {
		t.Errorf("got %v, want %s", d.log, want)
	}
}

// Serve reports what it cannot serve at once, and ends when it should.
func TestRemote(t *testing.T) {
	dir := t.TempDir()
	ca := testca.New(t, dir, "ca")
	cert, key := ca.Issue(t, "oncall", "localhost")
	_, other := ca.Issue(t, "other", "localhost")
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := RemoteOptions{Address: "127.0.0.1:0", CertFile: cert, KeyFile: key, ClientCAFile: ca.File}
	for _, c := range []struct {
		want   string
		change func(*RemoteOptions)
	}{
		{"no such file", func(o *RemoteOptions) { o.CertFile = "/no/such/file" }},
		{"private key does not match", func(o *RemoteOptions) { o.KeyFile = other }},
		{"ClientCAFile: there is no certificate", func(o *RemoteOptions) { o.ClientCAFile = empty }},
		{"ClientCAFile: open", func(o *RemoteOptions) { o.ClientCAFile = "/no/such/file" }},
		{"listen", func(o *RemoteOptions) { o.Address = "127.0.0.1:http:1" }},
	} {
		o := good
		c.change(&o)
		if err := remote(t.Context(), handler.Func(nil), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q in it", err, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := remote(ctx, handler.Func(nil), good); err != nil {
		t.Error(err)
	}
}
