// Package remote reaches the endpoints of a remote handler: it looks up their addresses
// ([Location]), and holds one connection to one endpoint ([Connection]).
//
// A Connection is a session.Peer, with a connection in the place of a process. It never reconnects:
// another process may use the same address by then. A process that loses its connection stops what
// it was doing, if it notices; informd cannot know.
package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host/connect"
)

// Connection is one connection to one endpoint. All methods may be called concurrently.
type Connection struct {
	address  netip.AddrPort
	limit    time.Duration // for Connect
	conn     *grpc.ClientConn
	watching sync.WaitGroup
	gone     chan struct{} // closed once the connection is gone
	going    sync.Once     // closes gone
	left     chan struct{} // closed once the endpoint accepts no more calls

	mu     sync.Mutex // guards dialed and why
	dialed bool
	why    error // the first reason why the connection is of no use any more
}

// New prepares a connection to one endpoint. It reads the certificates and sends nothing. The
// caller calls Connect, and End in any case. Once the endpoint has shown its certificate, the
// connection calls ends with the time at which that expires, or has expired.
func New(
	location Location, address netip.AddrPort, limit time.Duration, ends func(time.Time),
) (*Connection, error) {
	config, err := location.TLS()
	if err != nil {
		return nil, err
	}
	c := &Connection{
		address: address, limit: limit,
		gone: make(chan struct{}), left: make(chan struct{}),
	}
	config.VerifyConnection = func(s tls.ConnectionState) error { // all else has been verified
		ends(s.PeerCertificates[0].NotAfter)
		return nil
	}
	c.conn, err = connect.New(connect.TLS(config, func(err error) {
		if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Cert != nil {
			ends(e.Cert.NotAfter)
		}
		c.fail(connect.ExplainTLS(err))
	}), c.dialOnce)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return c, nil
}

// Connect connects within the limit, and asks whether a handler serves at the other end.
func (c *Connection) Connect() (handlerpb.HandlerClient, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.limit)
	defer cancel()
	health, err := healthpb.NewHealthClient(c.conn).Check(ctx,
		&healthpb.HealthCheckRequest{Service: handlerpb.HealthService})
	switch code := status.Code(err); {
	case code == codes.OK && health.GetStatus() == healthpb.HealthCheckResponse_NOT_SERVING:
		return nil, errors.New("it reports that it is not serving")
	case code == codes.OK, code == codes.Unimplemented, code == codes.NotFound:
	case code == codes.DeadlineExceeded:
		return nil, fmt.Errorf("no connection within %v", c.limit)
	default: // Explain knows more, if the connection could not be made
		text := printable.Line(status.Convert(err).Message(), handlerpb.MaxReasonBytes)
		return nil, &noAnswerError{connect.WithoutPort(text)}
	}
	c.watching.Go(func() {
		awaitLeaving(c.conn) // End closes it
		close(c.left)
	})
	return handlerpb.NewHandlerClient(c.conn), nil
}

// noAnswerError says that the endpoint gave no answer. It quotes what gRPC reports of the connection,
// which may have words of the endpoint.
type noAnswerError struct{ said string }

const noAnswer = "the connection broke before an answer came, perhaps because tls.cert was not accepted"

func (e *noAnswerError) Error() string { return noAnswer + ": " + e.said }

// Unquoted returns the error without the quote.
func (e *noAnswerError) Unquoted() error { return errors.New(noAnswer) }

// awaitLeaving returns once a connection that accepted a call accepts no more. gRPC lets calls
// through a moment before it calls the connection ready.
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

// errReused keeps a session from continuing with another process behind the same address.
var errReused = errors.New("the connection is gone")

func (c *Connection) dialOnce(ctx context.Context) (net.Conn, error) {
	c.mu.Lock()
	dialed := c.dialed
	c.dialed = true
	c.mu.Unlock()
	if dialed {
		return nil, errReused
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.address.String())
	if err != nil {
		c.fail(err)
		return nil, err
	}
	return &watchedConn{conn, c}, nil
}

// watchedConn notices its end: gRPC closes a connection that broke.
type watchedConn struct {
	net.Conn
	c *Connection
}

// Close implements net.Conn.
func (w *watchedConn) Close() error {
	defer w.c.going.Do(func() { close(w.c.gone) })
	return w.Conn.Close()
}

func (c *Connection) fail(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		c.why = why
	}
}

// Kill closes the connection.
func (c *Connection) Kill(why error) {
	c.fail(why)
	_ = c.conn.Close()
	c.going.Do(func() { close(c.gone) })
}

// Explain returns the first reason why the connection failed, or err if there is none.
func (c *Connection) Explain(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return c.why
	}
	return err
}

// Exited is closed once the connection is gone.
func (c *Connection) Exited() <-chan struct{} { return c.gone }

// Leaving is closed once the endpoint accepts no more calls.
func (c *Connection) Leaving() <-chan struct{} { return c.left }

// End closes the connection. There is nothing to wait for: Drain has asked for the last answers.
func (c *Connection) End(time.Duration) {
	c.Kill(errors.New("ended"))
	c.watching.Wait()
}

// PID returns 0.
func (c *Connection) PID() int { return 0 }

// Confined returns "".
func (c *Connection) Confined() string { return "" }

// Hide does nothing: what a remote handler writes does not come here.
func (c *Connection) Hide(func() bool) {}

// LastLines returns nil.
func (c *Connection) LastLines() []string { return nil }
