package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host/connect"
)

// pluginEnvironment returns the variables by which go-plugin's server learns what it needs.
// go-plugin exports no constants for the names that stand here as text.
func (p *Process) pluginEnvironment() []string {
	env := []string{
		handlerpb.CookieKey + "=" + handlerpb.CookieValue,
		// For handlers on TCP, which the handshake refuses.
		"PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000",
		"PLUGIN_PROTOCOL_VERSIONS=" + strconv.Itoa(handlerpb.ProtocolVersion),
		plugin.EnvUnixSocketDir + "=" + p.made.socketDir,
	}
	if p.offer != "" {
		env = append(env, p.offer)
	}
	return env
}

// connect launches the process, waits for its handshake, and connects to it, within StartTimeout.
func (p *Process) connect() (handlerpb.HandlerClient, error) {
	limit := p.surroundings.StartTimeout
	overtime := time.AfterFunc(limit, func() {
		p.Kill(fmt.Errorf("it was not ready within %v of its start%s",
			limit, suspects(p.command)))
	})
	defer overtime.Stop()

	var config *tls.Config
	if !p.command.DisableTLS {
		var err error
		if config, p.offer, err = offerTLS(); err != nil {
			return nil, err
		}
	}
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if err := <-p.shaken; err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	conn, err := connect.New(p.credentials(config), p.dial)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	p.mu.Lock()
	p.grpc = conn
	p.mu.Unlock()
	if err := p.syncOutput(conn); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if !overtime.Stop() {
		return nil, errors.New("start took too long") // Kill has the reason
	}
	return handlerpb.NewHandlerClient(conn), nil
}

// credentials returns TLS with the certificate of the handshake. A handler without one did not take
// the offer; it is spoken to without TLS, in a directory that only the daemon's user may enter.
func (p *Process) credentials(config *tls.Config) credentials.TransportCredentials {
	p.mu.Lock()
	certificate := p.handshake.certificate
	p.mu.Unlock()
	if certificate == nil {
		return insecure.NewCredentials()
	}
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AddCert(certificate)
	config.Time = func() time.Time { // the clock may have been set back since it was made
		if now := time.Now(); now.After(certificate.NotBefore) {
			return now
		}
		return certificate.NotBefore
	}
	return connect.TLS(config, p.distrust)
}

// dial connects to the socket of the handshake.
func (p *Process) dial(ctx context.Context) (net.Conn, error) {
	conn, err := dialSocket(ctx, p.socket())
	if errors.Is(err, errNoSocket) {
		p.Kill(err)
	}
	if err != nil {
		return nil, err
	}
	if err := p.keep(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// distrust ends a process whose certificate is not accepted. If a handshake fails in another way,
// the process's end says more.
func (p *Process) distrust(err error) {
	e, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return
	}
	why := connect.ExplainExpired(e)
	if why == nil {
		why = errors.New(printable.Line(e.Err.Error(), handlerpb.MaxReasonBytes))
	}
	p.Kill(fmt.Errorf("TLS with the certificate in its handshake, "+
		"which must be for a server called localhost: %w", why))
}

// syncOutput logs what go-plugin's server redirects from the process's own standard output and
// error. Other handlers need not implement the service. It returns once the connection is there.
func (p *Process) syncOutput(conn *grpc.ClientConn) error {
	stream, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true},
		"/plugin.GRPCStdio/StreamStdio", grpc.ForceCodecV2(stdioCodec{}))
	switch code := status.Code(err); {
	case code == codes.Unavailable || code == codes.Unimplemented:
		return nil // if the connection failed, the first call says why
	case err != nil:
		return err
	}
	err = errors.Join(stream.SendMsg(nil), stream.CloseSend())
	p.syncing.Go(func() {
		for err == nil {
			var m stdio
			if err = stream.RecvMsg(&m); err != nil { // the connection was closed, at the latest
				return
			}
			switch m.channel {
			case stdioStdout:
				_, _ = p.output.SyncStdout().Write(m.data)
			case stdioStderr:
				_, _ = p.output.SyncStderr().Write(m.data)
			}
		}
	})
	return nil
}

// disconnect asks the handler to exit, by go-plugin's Shutdown, if it has grace to do so, and
// closes the connection.
func (p *Process) disconnect(grace time.Duration) {
	p.mu.Lock()
	conn, child := p.grpc, p.child
	p.mu.Unlock()
	if conn == nil {
		return
	}
	if grace > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		go func() {
			select {
			case <-child.exited:
				cancel()
			case <-ctx.Done():
			}
		}()
		_ = conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	}
	_ = conn.Close()
	p.syncing.Wait()
}
