package daemon

import (
	"context"
	"testing"
	"time"
)

// slowHost takes until release is closed to end.
type slowHost struct {
	hosted
	running, ending, release chan struct{}
}

func (s slowHost) Run(ctx context.Context) error {
	close(s.running)
	<-ctx.Done()
	close(s.ending)
	<-s.release
	return nil
}

// While hosts end, reports and metrics can still ask for them.
func TestHandlersWhileTheyEnd(t *testing.T) {
	t.Parallel()
	slow := slowHost{running: make(chan struct{}), ending: make(chan struct{}), release: make(chan struct{})}
	h := &handlers{all: handlerSet{{name: "slow", host: &namedHost{slow, "slow"}}}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.run(ctx) }()
	<-slow.running
	cancel()
	<-slow.ending
	hosts := make(chan int)
	go func() {
		for range 1000 { // also once run waits
			h.hosts()
			time.Sleep(10 * time.Microsecond)
		}
		hosts <- len(h.hosts())
	}()
	select {
	case n := <-hosts:
		if n != 1 {
			t.Errorf("%d hosts", n)
		}
	case <-time.After(time.Minute):
		t.Error("hosts waits until they have ended")
	}
	close(slow.release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
