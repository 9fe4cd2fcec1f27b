package handlertest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handlerpb"
)

// dial connects to the handler that runs elsewhere, and asks it whether it serves.
func (t *trial) dial(ctx context.Context) (*process, error) {
	address := net.JoinHostPort(t.Remote.Host, strconv.Itoa(int(t.Remote.Port)))
	p, err := t.Remote.dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return p, nil
}

func (r *RemoteHandler) dial(ctx context.Context, address string) (*process, error) {
	config, err := r.config()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{}
	if r.DNS != "" {
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, r.DNS)
		}
		dialer.Resolver = &net.Resolver{PreferGo: true, Dial: dial}
	}
	shaker := &handshaker{TransportCredentials: credentials.NewTLS(config), failure: new(failure)}
	conn, err := grpc.NewClient("passthrough:///"+address, append(clientOptions(),
		grpc.WithTransportCredentials(shaker),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			var unknown *net.DNSError // its text names the system's DNS server, even if another answered
			if errors.As(err, &unknown) && unknown.IsNotFound {
				err = fmt.Errorf("%s has no address: is an endpoint ready?", r.Host)
			}
			if err != nil {
				shaker.fail(err)
			}
			return conn, err
		}))...)
	if err != nil {
		return nil, err
	}
	p := &process{conn: conn, api: handlerpb.NewHandlerClient(conn), tls: shaker}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	health, err := grpc_health_v1.NewHealthClient(conn).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: handlerpb.HealthService})
	switch code := status.Code(err); {
	case code == codes.OK && health.GetStatus() == grpc_health_v1.HealthCheckResponse_NOT_SERVING:
		err = errors.New("it reports that it is not serving")
	case code == codes.OK, code == codes.Unimplemented, code == codes.NotFound:
		return p, nil
	default:
		err = shaker.explain(fmt.Errorf("the connection broke before an answer came, "+
			"perhaps because tls.cert was not accepted: %s", status.Convert(err).Message()))
	}
	_ = conn.Close()
	return nil, err
}

// config reads the files.
func (r *RemoteHandler) config() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(r.Cert, r.Key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key: %w", err)
	}
	pem, err := os.ReadFile(r.CA)
	if err != nil {
		return nil, fmt.Errorf("tls.ca: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls.ca: there is no certificate in %s", r.CA)
	}
	name := r.ServerName
	if name == "" {
		name = r.Host
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		RootCAs:      authorities,
		ServerName:   name,
	}, nil
}

// handshaker remembers why a connection could not be made, which gRPC says only amid its own words.
type handshaker struct {
	credentials.TransportCredentials
	*failure
}

// failure keeps the first error.
type failure struct {
	mu  sync.Mutex
	err error // guarded by mu
}

func (f *failure) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// ClientHandshake implements credentials.TransportCredentials.
func (h *handshaker) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		h.fail(err)
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (h *handshaker) Clone() credentials.TransportCredentials {
	return &handshaker{h.TransportCredentials.Clone(), h.failure}
}

// explain returns why there is no connection, or err if there was one.
func (h *handshaker) explain(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var (
		record    tls.RecordHeaderError
		name      x509.HostnameError
		authority x509.UnknownAuthorityError
	)
	switch {
	case h.err == nil:
		return err
	case errors.As(h.err, &record):
		return errors.New("it does not speak TLS")
	case errors.As(h.err, &name):
		return fmt.Errorf("its certificate is for another name, "+
			"and tls.serverName says which name it must have: %w", h.err)
	case errors.As(h.err, &authority):
		return fmt.Errorf("its certificate is not signed by an authority in tls.ca: %w", h.err)
	}
	return h.err
}
