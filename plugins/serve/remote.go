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
	// CertFile and KeyFile are PEM files with the certificate that Remote shows informd. It must be
	// for the name that informd's manifest has.
	CertFile, KeyFile string
	// ClientCAFile is a PEM file with authorities. One of them must have signed informd's
	// certificate. Whoever has a certificate of theirs can do what informd does, so let them sign
	// nothing else.
	ClientCAFile string
}

// How long Remote's parts may take.
const (
	// remoteDrain is how long running events may take when the process is to end. With lastDrain it
	// fits into the 30 seconds that Kubernetes gives a Pod.
	remoteDrain = 20 * time.Second
	// Remote pings an informd that is silent for remoteSilence, which then has as long to answer.
	// So the handler gives up on its events before informd can notice a lost connection and send
	// them to another endpoint.
	remoteSilence = 3 * time.Second
	// remoteHandshake bounds the TLS and HTTP/2 handshakes of a connection.
	remoteHandshake = 10 * time.Second
)

// remoteStreams bounds the concurrent calls of one connection; informd has three at most.
const remoteStreams = 64

// Remote serves h over TCP with mutual TLS to any informd whose manifest has this process among its
// handler's addresses, until SIGTERM or SIGINT. Then it takes no new events, lets running ones end,
// calls Drain and returns nil. A second signal ends the process at once. An error says why it
// cannot serve. Remote reads the files again for each connection, so they can be replaced at any
// time.
//
// Besides what package handler promises, this holds over all connections: events of one object do
// not overlap, and at most Description.Concurrency events run at once. Further events wait, as long
// as their time limits allow. When a connection breaks, the contexts of its events end, and another
// process may get the same events. Configure is called again when an informd brings another config
// and no stream of events is open. While another informd uses the handler, Remote refuses another
// config. Drain is called only at the end of the process.
//
// Logs are the program's own: Remote changes neither slog's default logger nor the standard
// streams. [EventLog] adds to the lines which event they are about.
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
	server := GRPCServer([]grpc.ServerOption{
		grpc.Creds(callers{credentials.NewTLS(config)}),
		grpc.ConnectionTimeout(remoteHandshake),
		grpc.MaxConcurrentStreams(remoteStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: remoteSilence, Timeout: remoteSilence,
		}),
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

// forClient reads the files for each connection. It logs at most once a minute that it cannot use
// them.
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

// tls returns the configuration that the files make.
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
