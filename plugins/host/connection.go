package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handlerpb"
)

// connection is the peer of a session with an endpoint: one connection to it, which is never made a second time. A process
// of which the connection broke is as good as gone: it is told to stop what it does by the same event, if it notices.
type connection struct {
	conn     *grpc.ClientConn
	watching sync.WaitGroup
	gone     chan struct{} // closed once the connection is
	going    sync.Once
	left     chan struct{} // closed once the endpoint takes no more calls on it

	mu     sync.Mutex
	dialed bool
	why    error // the first reason why it cannot be used
}

var _ peer = (*connection)(nil)

// dial begins a session with an endpoint, and hands it its config if configure is set.
func dial(ctx context.Context, remote RemoteSpec, address netip.AddrPort, configure bool, opts Options, log *slog.Logger) (*session, error) {
	config, err := remote.TLS()
	if err != nil {
		return nil, err
	}
	c := &connection{gone: make(chan struct{}), left: make(chan struct{})}
	if err := c.open(address, config); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	s := &session{peer: c, spec: remote.spec(), opts: opts, log: log}
	connect := func() (handlerpb.HandlerClient, error) { return c.connect(opts.StartTimeout) }
	steps := []func(context.Context) error{s.introduce}
	if configure {
		steps = append(steps, s.settle)
	}
	return begin(ctx, s, connect, steps...)
}

// open makes the client; it sends nothing yet.
func (c *connection) open(address netip.AddrPort, config *tls.Config) (err error) {
	c.conn, err = grpc.NewClient("passthrough:///"+address.String(),
		grpc.WithTransportCredentials(handshaker{credentials.NewTLS(config), func(err error) { c.fail(explainTLS(err)) }}),
		grpc.WithContextDialer(c.dialOnce),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(handlerpb.MaxResponseBytes),
			grpc.MaxCallSendMsgSize(handlerpb.MaxRequestBytes)),
		grpc.WithInitialWindowSize(flowWindow),
		grpc.WithInitialConnWindowSize(flowWindow),
	)
	return err
}

// connect connects within limit, and asks whether there is a handler at the other end.
func (c *connection) connect(limit time.Duration) (handlerpb.HandlerClient, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	health, err := healthpb.NewHealthClient(c.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: handlerpb.HealthService})
	switch code := status.Code(err); {
	case code == codes.OK && health.GetStatus() == healthpb.HealthCheckResponse_NOT_SERVING:
		return nil, errors.New("it says that it does not serve at present")
	case code == codes.OK, code == codes.Unimplemented, code == codes.NotFound:
	case code == codes.DeadlineExceeded:
		return nil, fmt.Errorf("there was no connection within %v", limit)
	default: // c.failure knows more, where the connection could not be made
		return nil, fmt.Errorf("the connection broke before there was an answer, as it does where tls.cert is not accepted: %s",
			withoutPort(printable(status.Convert(err).Message(), handlerpb.MaxReasonBytes)))
	}
	c.watching.Go(func() {
		awaitLeaving(c.conn) // it is closed in the end
		close(c.left)
	})
	return handlerpb.NewHandlerClient(c.conn), nil
}

// awaitLeaving returns once no more calls are taken on a connection on which one was. gRPC lets calls through a moment before
// it says that the connection is ready.
func awaitLeaving(conn interface {
	GetState() connectivity.State
	WaitForStateChange(context.Context, connectivity.State) bool
},
) {
	for conn.GetState() == connectivity.Connecting {
		conn.WaitForStateChange(context.Background(), connectivity.Connecting)
	}
	conn.WaitForStateChange(context.Background(), connectivity.Ready)
}

// errReused keeps a session from going on with another process behind the same address.
var errReused = errors.New("the connection is gone")

func (c *connection) dialOnce(ctx context.Context, address string) (net.Conn, error) {
	c.mu.Lock()
	dialed := c.dialed
	c.dialed = true
	c.mu.Unlock()
	if dialed {
		return nil, errReused
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		c.fail(err)
		return nil, err
	}
	return &watchedConn{conn, c}, nil
}

// watchedConn tells the connection of its end: gRPC closes it when it breaks.
type watchedConn struct {
	net.Conn
	c *connection
}

func (w *watchedConn) Close() error {
	defer w.c.going.Do(func() { close(w.c.gone) })
	return w.Conn.Close()
}

// handshaker tells why a handshake failed, which gRPC tells only in the midst of its own words.
type handshaker struct {
	credentials.TransportCredentials
	failed func(error)
}

func (h handshaker) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		h.failed(err)
	}
	return conn, info, err
}

func (h handshaker) Clone() credentials.TransportCredentials {
	return handshaker{h.TransportCredentials.Clone(), h.failed}
}

func (c *connection) fail(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		c.why = why
	}
}

func (c *connection) kill(why error) {
	c.fail(why)
	_ = c.conn.Close()
	c.going.Do(func() { close(c.gone) })
}

func (c *connection) failure(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return c.why
	}
	return err
}

func (c *connection) exited() <-chan struct{}  { return c.gone }
func (c *connection) leaving() <-chan struct{} { return c.left }

// end closes the connection. There is nothing to wait for: what it had to say it has been asked by Drain.
func (c *connection) end(time.Duration) {
	c.kill(errors.New("ended"))
	c.watching.Wait()
}

func (c *connection) pid() int            { return 0 }
func (c *connection) confined() string    { return "" }
func (c *connection) lastLines() []string { return nil }
