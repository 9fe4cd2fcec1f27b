// Package connect makes the gRPC connections to handlers, local and remote, and says in words for
// an operator why TLS failed.
package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/internal/rawcall"
	"github.com/informd/informd/plugins/handlerpb"
)

// flowWindow is gRPC's flow control window in bytes: more than a batch. A fixed one spares gRPC the
// probing for a better one.
const flowWindow = 4 << 20

// New returns a connection that dial makes when it is first used. gRPC neither repeats calls, nor
// closes the connection while it is idle, nor heeds proxies. Messages have the bounds of the
// protocol.
func New(
	creds credentials.TransportCredentials, dial func(context.Context) (net.Conn, error),
) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///handler",
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			if socket, ok := rawcall.Wrap(conn); ok {
				return socket, nil
			}
			return conn, nil
		}),
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
}

// TLS returns credentials that call failed with the reason when a handshake fails. gRPC itself
// reports the reason only within words of its own.
func TLS(config *tls.Config, failed func(error)) credentials.TransportCredentials {
	return watched{credentials.NewTLS(config), failed}
}

type watched struct {
	credentials.TransportCredentials
	failed func(error)
}

func (w watched) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		w.failed(err)
	}
	return conn, info, err
}

func (w watched) Clone() credentials.TransportCredentials {
	return watched{w.TransportCredentials.Clone(), w.failed}
}

// ExplainTLS says what is wrong with the certificates of a remote handler, and what to do. The
// words of the other side's certificate are made fit for a log.
func ExplainTLS(err error) error {
	text := WithoutPort(printable.Line(err.Error(), handlerpb.MaxReasonBytes))
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errors.New("it does not speak TLS")
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("its certificate is for another name, "+
			"and tls.serverName says which name it must have: %s", text)
	}
	if err := ExplainExpired(err); err != nil {
		return err
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("its certificate is not signed by an authority in tls.ca: %s", text)
	}
	return fmt.Errorf("TLS handshake: %s", text)
}

// ExplainExpired returns nil if err is about anything but a certificate's time of validity.
func ExplainExpired(err error) error {
	e, ok := errors.AsType[x509.CertificateInvalidError](err)
	if !ok || e.Reason != x509.Expired || e.Cert == nil {
		return nil
	}
	// The error itself holds the present time, and so differs each time.
	const day = time.DateTime + " MST"
	return fmt.Errorf("its certificate is valid from %s to %s only",
		e.Cert.NotBefore.UTC().Format(day), e.Cert.NotAfter.UTC().Format(day))
}

// WithoutPort removes the local end of a connection from an error text of package net. Its port is
// another one each time, and a failure that repeats should read the same.
func WithoutPort(text string) string { return localEnd.ReplaceAllString(text, "") }

var localEnd = regexp.MustCompile(`([0-9.]+|\[[^\]]*\]):[0-9]+->`)
