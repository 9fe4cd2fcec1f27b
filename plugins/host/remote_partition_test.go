package host_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// wire forwards bytes between two connections until it is cut. Then it forwards none, and neither
// side notices.
type wire struct {
	mu  sync.Mutex
	cut chan struct{} // closed while it is
}

func newWire() *wire { return &wire{cut: make(chan struct{})} }

func (w *wire) carry(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		cut := w.cut
		w.mu.Unlock()
		select {
		case <-cut:
			_, _ = io.Copy(io.Discard, from) // until somebody gives up on it
			return
		default:
		}
		if _, wrong := to.Write(buf[:n]); err != nil || wrong != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}

func (w *wire) serve(to string) func(net.Conn) {
	return func(from net.Conn) {
		conn, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		var both sync.WaitGroup
		both.Go(func() { w.carry(conn, from) })
		both.Go(func() { w.carry(from, conn) })
		both.Wait()
		_ = conn.Close()
	}
}

func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = make(chan struct{})
}

// A connection is cut without notice to either side. informd gives up on the endpoint, the endpoint
// stops its work, and another one gets the events. It works again once the network does.
func TestRemotePartition(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	near, far := f.process(1), f.process(9)
	w := newWire()
	f.rogue(2, w.serve(f.address(9).String()))
	f.resolve(1, 2)
	r := f.remote(host.Options{
		StartTimeout: 500 * time.Millisecond, HealthInterval: 100 * time.Millisecond, HealthTimeout: 500 * time.Millisecond, Backoff: host.Backoff{Max: 300 * time.Millisecond},
	})
	runs(t, r, 2)
	waits := make(chan error, 2) // on each side of the cut
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 2 {
		r.Submit(ctx, &handler.Event{Rule: "r", Name: fmt.Sprint("wait-", i), Attempt: 1}, func(_ handler.Answer, err error) { waits <- err })
	}
	stop := pour(t, r, "slow")
	waitFor(t, "both to work", func() bool {
		return near.did("did") > 4 && far.did("did") > 4 && near.did("began wait") == 1 && far.did("began wait") == 1
	})
	w.mu.Lock()
	close(w.cut)
	w.mu.Unlock()
	waitFor(t, "the endpoint to be given up", func() bool { return limitOf(r) == 4 && r.Status().Counts.Lost > 0 })
	before := near.did("did")
	waitFor(t, "the other to go on", func() bool { return near.did("did") > before+8 })
	waitFor(t, "what the endpoint does to end", func() bool { return far.did("began") == far.did("did")+far.did("ended") })
	w.heal()
	runs(t, r, 2)
	before = far.did("did")
	waitFor(t, "the endpoint to work again", func() bool { return far.did("did") > before+4 })
	stop()
	cancel()
	for range 2 {
		<-waits
	}
}

// Two addresses belong to one process. It never has two events of one object, and a cut of one
// connection does no harm.
func TestRemoteSameProcessTwice(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	p := f.process(1, "CONCURRENCY=3")
	w := newWire()
	f.rogue(2, w.serve(f.address(1).String()))
	f.resolve(1, 2)
	r := f.remote(host.Options{
		StartTimeout: 500 * time.Millisecond, HealthInterval: 100 * time.Millisecond, HealthTimeout: 500 * time.Millisecond, Backoff: host.Backoff{Max: 300 * time.Millisecond},
	})
	runs(t, r, 2)
	stop := pour(t, r, "slow")
	waitFor(t, "it to work", func() bool { return p.did("did") > 8 })
	w.mu.Lock()
	close(w.cut)
	w.mu.Unlock()
	waitFor(t, "the connection to be given up", func() bool { return limitOf(r) == 3 })
	before := p.did("did")
	waitFor(t, "the other to go on", func() bool { return p.did("did") > before+8 })
	w.heal()
	runs(t, r, 2)
	stop()
	running, top := 0, 0
	for _, line := range p.said() {
		if line[:5] == "began" {
			running++
		} else {
			running--
		}
		top = max(top, running)
	}
	if top > 3 {
		t.Errorf("it had %d events at once, and takes 3", top)
	}
}
