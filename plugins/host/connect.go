package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handlerpb"
)

// connect launches the process and connects to it, within StartTimeout.
func (r *runner) connect(dir string) (handlerpb.HandlerClient, error) {
	config := &plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			MagicCookieKey:   handlerpb.CookieKey,
			MagicCookieValue: handlerpb.CookieValue,
		},
		VersionedPlugins: map[int]plugin.PluginSet{
			handlerpb.ProtocolVersion: {handlerpb.PluginName: grpcPlugin{}},
		},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc:       r.prepare,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		SkipHostEnv:      true,
		StartTimeout:     24 * time.Hour, // ours ends the process, and thereby the start
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       r.logs.syncStdout,
		SyncStderr:       r.logs.syncStderr,
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(
				grpc.MaxCallRecvMsgSize(handlerpb.MaxResponseBytes),
				grpc.MaxCallSendMsgSize(handlerpb.MaxRequestBytes)),
			grpc.WithInitialWindowSize(flowWindow),
			grpc.WithInitialConnWindowSize(flowWindow),
			grpc.WithStreamInterceptor(withoutBroker),
			grpc.WithContextDialer(r.dial),
		},
	}
	if !r.spec.DisableTLS {
		var err error
		if config.TLSConfig, r.offer, err = offerTLS(); err != nil {
			return nil, err
		}
	}
	overtime := time.AfterFunc(r.opts.StartTimeout, func() {
		r.kill(fmt.Errorf("it was not ready to talk within %v of its start%s", r.opts.StartTimeout, suspects(r.spec.Confine)))
	})
	defer overtime.Stop()

	r.client = plugin.NewClient(config)
	if _, err := r.client.Start(); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if r.hasTLS() { // what go-plugin makes of the same would not say what is wrong
		secure := handshaker{credentials.NewTLS(config.TLSConfig), r.distrust}
		config.GRPCDialOptions = append(config.GRPCDialOptions, grpc.WithTransportCredentials(secure))
	} else {
		config.TLSConfig = nil // the handler did not take up the offer; the socket directory is ours alone
	}
	protocol, err := r.client.Client()
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	api, err := protocol.Dispense(handlerpb.PluginName)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if !overtime.Stop() {
		return nil, errors.New("start took too long") // kill has the reason
	}
	return api.(handlerpb.HandlerClient), nil
}

// dial connects to the process's socket, whatever go-plugin took for its path.
func (r *runner) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := dialSocket(ctx, r.socket())
	if errors.Is(err, errNoSocket) {
		r.kill(err)
	}
	if err != nil {
		return nil, err
	}
	if err := r.keep(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// distrust ends a process whose certificate does not do. A handshake that fails in another way says less than its end.
func (r *runner) distrust(err error) {
	e, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return
	}
	why := explainExpired(e)
	if why == nil {
		why = errors.New(printable(e.Err.Error(), handlerpb.MaxReasonBytes))
	}
	r.kill(fmt.Errorf("TLS with the certificate in its handshake, which has to be one of a server called localhost: %w", why))
}

// withoutBroker keeps go-plugin from opening its broker's stream, which nothing here uses: for each connection that a
// process announces on it, go-plugin has a goroutine wait, as many as there come.
func withoutBroker(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if method == "/plugin.GRPCBroker/StartStream" {
		return nil, status.Error(codes.Unimplemented, "there is no broker")
	}
	return open(ctx, desc, conn, method, opts...)
}

// flowWindow is gRPC's flow control window: a batch and more. A fixed one spares the probing for a better.
const flowWindow = 4 << 20

// grpcPlugin is go-plugin's way to the service.
type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
}

func (grpcPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the host is no handler")
}

func (grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return handlerpb.NewHandlerClient(conn), nil
}

// endGrace is how long the end of a killed process is waited for.
const endGrace = 10 * time.Second

// end has the process exit and takes everything away that belonged to it. Within grace it is asked to, by closing its
// standard input and by go-plugin's Shutdown, then by SIGTERM; then it is killed with its whole group.
func (r *runner) end(grace time.Duration) {
	r.logs.hurry()
	if p := r.process(); p != nil && grace > 0 {
		p.closeStdin()
		term := time.AfterFunc(grace/2, func() { p.signal(syscall.SIGTERM) })
		defer term.Stop()
		kill := time.AfterFunc(grace, func() { p.signal(syscall.SIGKILL) })
		defer kill.Stop()
	} else {
		r.kill(errors.New("ended"))
	}
	r.release()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if r.client != nil {
			r.client.Kill()
		}
		if p := r.process(); p != nil {
			<-p.exited
		}
	}()
	select {
	case <-ended:
	case <-time.After(grace + endGrace):
		// A process that SIGKILL does not end sleeps in the kernel. The daemon does not wait for it.
		r.logs.log.Error("handler process cannot be killed", "pid", r.ID())
	}
	r.logs.end()
	if err := r.tidy(); err != nil {
		r.logs.log.Warn("handler left something behind", "error", err)
	}
}
