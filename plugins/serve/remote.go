package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// RemoteOptions say where Remote listens, and whom it trusts. All are required.
type RemoteOptions struct {
	// Address to listen on, as ":8443".
	Address string
	// CertFile and KeyFile are PEM files with the certificate that informd is shown, for the name that its manifest has.
	CertFile, KeyFile string
	// ClientCAFile is a PEM file with the authorities one of which must have signed informd's certificate. Whoever has a
	// certificate of theirs can do what informd does: let them sign nothing else.
	ClientCAFile string
}

// How long Remote's parts may take.
const (
	// remoteDrain is what events that are with the handler have to end, when the process is to; with lastDrain it fits into
	// the 30 seconds that Kubernetes gives a Pod.
	remoteDrain = 20 * time.Second
	// An informd that is silent for remoteSilence is asked for a sign of life, and has as long to give it. Its events are
	// given up on before it can know that the connection is lost, and send them to another endpoint.
	remoteSilence = 3 * time.Second
	// remoteHandshake bounds what a connection may take until it is one.
	remoteHandshake = 10 * time.Second
)

// remoteStreams bounds the calls that are under way on one connection; informd has three at the most.
const remoteStreams = 64

// Remote serves h over TCP with mutual TLS to any informd whose manifest has this process among the addresses of its handler,
// until SIGTERM or SIGINT. Then it takes nothing new, lets events end that are with it, calls Drain and returns nil; a second
// signal ends the process at once. An error says why it cannot serve. The files are read again for each connection, so that
// they can be replaced at any time.
//
// Beside what package handler promises: over all connections, events of one object do not overlap, nor are there more than
// Description.Concurrency at once; what is too much waits, as long as its time limit allows. Other processes may have been
// given the same event when a connection broke, whose context has ended then. Configure is called again when an
// informd comes with another config while no event is with the handler; with the same config it is not, and while another
// informd uses the handler another config is refused. Drain is called at the end of the process only.
//
// Logs are the program's own: Remote changes neither slog's default logger nor the standard streams.
func Remote(h handler.Handler, o RemoteOptions) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal does what it always does
	return remote(ctx, h, o)
}

func remote(ctx context.Context, h handler.Handler, o RemoteOptions) error {
	if _, err := o.tls(); err != nil {
		return fmt.Errorf("serve a remote handler: %w", err)
	}
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return fmt.Errorf("serve a remote handler: %w", err)
	}
	config := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		ClientAuth:         tls.RequireAndVerifyClientCert,
		GetConfigForClient: o.forClient(),
	}
	server := newServer([]grpc.ServerOption{
		grpc.Creds(callers{credentials.NewTLS(config)}),
		grpc.ConnectionTimeout(remoteHandshake),
		grpc.MaxConcurrentStreams(remoteStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: remoteSilence, Timeout: remoteSilence}),
	})
	s := &service{handler: h, name: filepath.Base(os.Args[0]), shared: newShared()}
	handlerpb.RegisterHandlerServer(server, s)
	state := health.NewServer()
	state.SetServingStatus(handlerpb.HealthService, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, state)

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
		err = fmt.Errorf("serve a remote handler: %w", err)
	case <-ctx.Done():
		state.Shutdown()
		last := time.AfterFunc(remoteDrain, server.Stop)
		server.GracefulStop() // tells each informd that this endpoint is going away
		last.Stop()
		<-served
	}
	s.drainOnce()
	return err
}

// forClient reads the files for each connection. That they cannot be used is logged at most once a minute.
func (o RemoteOptions) forClient() func(*tls.ClientHelloInfo) (*tls.Config, error) {
	var mu sync.Mutex
	var logged time.Time
	return func(*tls.ClientHelloInfo) (*tls.Config, error) {
		config, err := o.tls()
		if err == nil {
			return config, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if time.Since(logged) > time.Minute {
			logged = time.Now()
			slog.Error("informd cannot connect", "error", err)
		}
		return nil, err
	}
}

// tls reads the files.
func (o RemoteOptions) tls() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("CertFile and KeyFile: %w", err)
	}
	pem, err := os.ReadFile(o.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("ClientCAFile: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, errors.New("ClientCAFile: there is no certificate in " + o.ClientCAFile)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    authorities,
		NextProtos:   []string{"h2"},
	}, nil
}
