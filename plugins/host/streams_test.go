package host_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host"
)

func init() {
	modes["no-streams"] = func() { // once it is configured, it allows no calls any more
		l, err := net.Listen("unix", socket())
		if err != nil {
			panic(err)
		}
		s := grpc.NewServer()
		var closed atomic.Bool
		handlerpb.RegisterHandlerServer(s, &raw{configure: func() []*handlerpb.Problem { closed.Store(true); return nil }})
		go func() { fmt.Println("1|1|unix|" + socket() + "|grpc|") }()
		_ = s.Serve(closing{l, &closed})
	}
}

// closing is a listener whose connections allow no streams once closed is set.
type closing struct {
	net.Listener
	closed *atomic.Bool
}

func (l closing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &closingConn{Conn: c, closed: l.closed}, err
}

type closingConn struct {
	net.Conn
	closed *atomic.Bool
	said   atomic.Bool
}

// Write writes one SETTINGS frame with MAX_CONCURRENT_STREAMS 0 ahead of the answer to Configure.
// The stream of deliveries is opened after that answer.
func (c *closingConn) Write(p []byte) (int, error) {
	if c.closed.Load() && !c.said.Swap(true) {
		if _, err := c.Conn.Write([]byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0}); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// A process that allows no streams is ended. It blocks neither its supervisor nor its end.
func TestNoStreams(t *testing.T) {
	t.Parallel()
	log := &recorder{}
	options := host.Options{Logger: log.logger(), HealthTimeout: 200 * time.Millisecond, Backoff: host.Backoff{Min: time.Hour}}
	h := start(t, spec("no-streams"), options)
	waitFor(t, "the failure", func() bool { return h.Status().State == host.BackingOff })
	if got, want := h.Status().Reason, "it did not take the stream of deliveries within 200ms"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := h.Reload(t.Context(), spec("no-streams")); err == nil || !strings.HasPrefix(err.Error(), "the new process: it ") {
		t.Errorf("got %v", err)
	}
	if log.count("handler ready") != 0 {
		t.Error("it was said to be ready")
	}

	options.HealthTimeout = time.Hour // the end of Run alone ends the wait
	h = host.New(spec("no-streams"), options)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.Run(ctx) }()
	waitFor(t, "a start", func() bool { return h.Status().State == host.Starting })
	cancel()
	<-ended
}
