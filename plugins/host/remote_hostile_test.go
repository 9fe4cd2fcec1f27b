package host_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host"
)

// rogue listens at an endpoint's address and passes each connection to serve, until the test ends.
func (f *farm) rogue(n int, serve func(net.Conn)) (connections *atomic.Int64) {
	f.t.Helper()
	l, err := net.Listen("tcp", f.address(n).String())
	if err != nil {
		f.t.Fatal(err)
	}
	connections = new(atomic.Int64)
	var serving sync.WaitGroup
	var mu sync.Mutex
	open := make(map[net.Conn]bool)
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			serving.Go(func() {
				serve(conn)
				_ = conn.Close()
				mu.Lock()
				delete(open, conn)
				mu.Unlock()
			})
		}
	})
	f.t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return connections
}

// tls returns an endpoint's configuration that accepts any client.
func (f *farm) tls() *tls.Config {
	cert, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		f.t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
}

// frames calls say to write HTTP/2 frames once the handshakes are done, and then reads.
func (f *farm) frames(say func(*http2.Framer) error) func(net.Conn) {
	config := f.tls()
	return func(raw net.Conn) {
		conn := tls.Server(raw, config)
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(conn, preface); err != nil {
			return
		}
		framer := http2.NewFramer(conn, conn)
		if err := say(framer); err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, conn)
	}
}

// rogueHandler serves r at an address.
func (f *farm) rogueHandler(n int, r *raw, opts ...grpc.ServerOption) {
	f.t.Helper()
	l, err := net.Listen("tcp", f.address(n).String())
	if err != nil {
		f.t.Fatal(err)
	}
	s := grpc.NewServer(append(opts, grpc.Creds(credentials.NewTLS(f.tls())))...)
	handlerpb.RegisterHandlerServer(s, r)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l)
	}()
	f.t.Cleanup(func() {
		s.Stop()
		<-served
	})
}

// Hostile endpoints harm only themselves: the healthy one does all the work, no event is lost three
// times, and the status says what is wrong.
func TestRemoteHostileEndpoints(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.spec.Timeout = time.Second
	good := f.process(1)
	var broken atomic.Int64
	tooLarge := &handlerpb.DeliverResponse{Done: make([]uint64, 1<<20), Answers: []*handlerpb.Answer{{Result: &handlerpb.Answer_Retry{
		Retry: &handlerpb.Retry{Reason: strings.Repeat("x", handlerpb.MaxResponseBytes)},
	}}}}
	endless := metadata.Pairs("x", strings.Repeat("~", 20<<20)) // "~" costs HTTP/2's compression no time
	rogues := []struct {
		reason string
		serve  func(net.Conn)
		raw    *raw
	}{
		{reason: "no connection within 500ms", serve: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }},
		{reason: "no connection within", serve: f.frames(func(*http2.Framer) error { return nil })},
		{reason: "", serve: func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }},
		{reason: "no connection within", serve: f.frames(func(w *http2.Framer) error {
			return w.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
		})},
		{reason: "", serve: f.frames(func(w *http2.Framer) error {
			return errors.Join(w.WriteSettings(), w.WriteGoAway(0, http2.ErrCodeNo, bytes.Repeat([]byte("x"), 1<<10)))
		})},
		{reason: "", serve: f.frames(func(w *http2.Framer) error {
			err := w.WriteSettings()
			for err == nil { // pings that want answers, which are not read
				err = w.WritePing(false, [8]byte{})
			}
			return err
		})},
		{reason: "the stream of deliveries", raw: &raw{stream: func(handlerpb.Handler_DeliverServer) error { return nil }}},
		{reason: "deliver failed: go away", raw: &raw{stream: func(s handlerpb.Handler_DeliverServer) error { // takes an event first
			_, _ = s.Recv()
			broken.Add(1)
			return status.Error(codes.Internal, "go away")
		}}},
		{reason: "deliver failed", raw: &raw{stream: func(s handlerpb.Handler_DeliverServer) error {
			for {
				if err := s.Send(tooLarge); err != nil {
					return err
				}
			}
		}}},
		{reason: "", raw: &raw{stream: func(s handlerpb.Handler_DeliverServer) error {
			return errors.Join(s.SetHeader(endless), s.Send(&handlerpb.DeliverResponse{}))
		}}},
	}
	addresses := []int{1}
	for i, r := range rogues {
		addresses = append(addresses, i+2)
		if r.raw != nil {
			f.rogueHandler(i+2, r.raw)
		} else {
			f.rogue(i+2, r.serve)
		}
	}
	f.resolve(addresses...)
	log := &recorder{}
	r := f.remote(host.Options{Logger: log.logger(), StartTimeout: 500 * time.Millisecond, Backoff: host.Backoff{Min: time.Millisecond, Max: 200 * time.Millisecond}})
	waitFor(t, "the one that is well", func() bool {
		s := r.Status()
		return len(s.Endpoints) == len(addresses) && s.Endpoints[0].Status.State == host.Running
	})

	const events = 300
	var callers sync.WaitGroup
	for i := range 3 { // one less than the good one takes: there is room where to try again
		callers.Go(func() {
			for n := range events / 3 {
				ev := handler.Event{Rule: "r", Name: fmt.Sprintf("a-%d-%d", i, n), Attempt: 1}
				for losses := 0; ; ev.Attempt++ {
					_, err := r.Handle(context.Background(), ev)
					if err == nil {
						break
					}
					if errors.Is(err, handler.ErrLost) {
						if losses++; losses == 3 {
							t.Errorf("%s was lost three times", ev.Name)
						}
						time.Sleep(20 * time.Millisecond) // a dispatcher waits longer
					}
				}
			}
		})
	}
	callers.Wait()
	waitFor(t, "all to be done by the one that is well", func() bool { // some more than once: a time limit may pass
		done := map[string]bool{}
		for _, line := range good.said() {
			if name, ok := strings.CutPrefix(line, "did "); ok {
				done[name] = true
			}
		}
		return len(done) == events
	})
	if broken.Load() == 0 {
		t.Error("the one that takes an event and breaks got none")
	}
	for i, rogue := range rogues {
		waitFor(t, "a reason like "+rogue.reason, func() bool {
			return slices.ContainsFunc(log.lines(), func(line string) bool {
				return strings.Contains(line, "failed endpoint="+f.address(i+2).String()) && strings.Contains(line, rogue.reason)
			})
		})
	}
	for _, line := range log.lines() {
		if len(line) > 6<<10 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
}

// A server that makes its clients reconnect regularly does not count as failing, and no event is
// lost.
func TestRemoteConnectsAgain(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.rogueHandler(1, &raw{stream: func(s handlerpb.Handler_DeliverServer) error {
		for {
			req, err := s.Recv()
			if err != nil {
				return nil
			}
			for _, ev := range req.GetEvents() {
				if err := s.Send(&handlerpb.DeliverResponse{Done: []uint64{ev.GetSeq()}}); err != nil {
					return err
				}
			}
		}
	}}, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 200 * time.Millisecond}))
	f.resolve(1)
	log := &recorder{}
	r := f.remote(host.Options{Logger: log.logger(), Backoff: host.Backoff{Min: time.Millisecond, Max: time.Hour}})
	stop := pour(t, r, "a")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v\n%s", r.Status(), strings.Join(log.lines(), "\n"))
		}
	})
	waitFor(t, "many connections", func() bool { return r.Status().Restarts > 8 })
	if stop() == 0 {
		t.Error("nothing was done")
	}
	if s := r.Status(); s.Counts.Lost > 0 || log.count("handler failed") > 0 {
		t.Errorf("%+v\n%s", s, strings.Join(log.lines(), "\n"))
	}
}

// However often an endpoint comes and goes, nothing of it remains.
func TestRemoteReconnectsLeaveNothing(t *testing.T) {
	f := newFarm(t)
	f.rogueHandler(1, &raw{stream: func(handlerpb.Handler_DeliverServer) error { return nil }})
	f.rogue(2, f.frames(func(*http2.Framer) error { return errors.New("enough") }))
	refused := f.rogue(3, func(net.Conn) {})
	f.resolve(1, 2, 3)
	r := f.remote(host.Options{Backoff: host.Backoff{Min: time.Nanosecond, Max: time.Microsecond}})
	const rounds = 40 // twice what may be left by chance
	count := func() (goroutines, files int) {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return runtime.NumGoroutine(), 0
		}
		return runtime.NumGoroutine(), len(open)
	}
	restarts := func(n int) {
		waitFor(t, fmt.Sprint(n, " connections"), func() bool {
			for _, e := range r.Status().Endpoints {
				if e.Status.Restarts < n {
					return false
				}
			}
			return refused.Load() >= int64(n)
		})
	}
	restarts(20)
	goroutines, files := count()
	restarts(20 + rounds)
	waitFor(t, "what was left to go", func() bool {
		g, n := count()
		return g <= goroutines+20 && n <= files+20
	})
}
