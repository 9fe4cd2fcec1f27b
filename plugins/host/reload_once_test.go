package host

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// endCounted is a peer whose end is counted, and waits.
type endCounted struct {
	peer
	ends   atomic.Int32
	ending chan struct{} // closed when the first end begins
	goOn   chan struct{}
}

func (p *endCounted) end(grace time.Duration) {
	if p.ends.Add(1) > 1 {
		return // a process does not bear a second one
	}
	close(p.ending)
	<-p.goOn
	p.peer.end(grace)
}

// A new process that goes away before it takes over is ended once, although all is ended meanwhile.
func TestReloadEndsOnce(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "ih") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	spec := Spec{Name: "echo", Path: os.Args[0], Env: []string{"MODE=echo"}}.withDefaults()
	opts := Options{RunDir: dir, Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	second := &endCounted{ending: make(chan struct{}), goOn: make(chan struct{})}
	launches := 0
	counting := func(ctx context.Context, spec Spec, opts Options, log *slog.Logger) (*session, error) {
		s, err := launch(ctx, spec, opts, log)
		if launches++; err == nil && launches == 2 {
			second.peer, s.peer = s.peer, second
		}
		return s, err
	}
	h := newHost(spec, opts, counting, newDeliveries(spec.Timeout, &debts{}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.Run(ctx) }()
	if err := h.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	lost := make(chan struct{})
	h.Submit(ctx, &handler.Event{Name: "wait"}, func(handler.Answer, error) { close(lost) }) // the old one is not done
	reloaded := make(chan error, 1)
	go func() { reloaded <- h.Reload(ctx, spec) }()
	for !h.deliveries.isHeld() {
		time.Sleep(time.Millisecond)
	}
	if err := syscall.Kill(second.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-second.ending
	cancel()
	close(second.goOn)
	<-ended
	<-lost
	if err := <-reloaded; err == nil {
		t.Error("it is said to have taken over")
	}
	if n := second.ends.Load(); n != 1 {
		t.Errorf("it was ended %d times", n)
	}
}
