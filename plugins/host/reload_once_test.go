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
	"github.com/informd/informd/plugins/host/process"
	"github.com/informd/informd/plugins/host/session"
)

// endCounted counts the calls of End, and blocks the first one.
type endCounted struct {
	session.Peer
	ends   atomic.Int32
	ending chan struct{} // closed when the first end begins
	goOn   chan struct{}
}

func (p *endCounted) End(grace time.Duration) {
	if p.ends.Add(1) > 1 {
		return // a process does not bear a second one
	}
	close(p.ending)
	<-p.goOn
	p.Peer.End(grace)
}

// A new process that exits before it takes over is ended once, even if the host stops meanwhile.
func TestReloadEndsOnce(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "ih") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	spec := Spec{Name: "echo", Path: os.Args[0], Env: []string{"MODE=echo", "GORACE=atexit_sleep_ms=0"}}
	opts := Options{RunDir: dir}
	second := &endCounted{ending: make(chan struct{}), goOn: make(chan struct{})}
	launches := 0
	counting := func(ctx context.Context, spec Spec, opts Options, log *slog.Logger) (*session.Session, error) {
		p, err := process.New(ctx, spec.command(), opts.surroundings(), log)
		if err != nil {
			return nil, err
		}
		var peer session.Peer = p
		if launches++; launches == 2 {
			second.Peer, peer = p, second
		}
		return session.Begin(ctx, peer, opts.terms(spec), true, log)
	}
	h := newHost(spec, opts, counting)
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
	for !h.processes.consumer.IsHeld() {
		time.Sleep(time.Millisecond)
	}
	if err := syscall.Kill(second.PID(), syscall.SIGKILL); err != nil {
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
