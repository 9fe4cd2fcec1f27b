package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

// Handshake is what informd and its handlers agree on in go-plugin's handshake. [Plugin] shows how
// to use it.
var Handshake = plugin.HandshakeConfig{
	ProtocolVersion:  handlerpb.ProtocolVersion,
	MagicCookieKey:   handlerpb.CookieKey,
	MagicCookieValue: handlerpb.CookieValue,
}

// Plugin is a handler as a plugin of go-plugin, for those who call go-plugin themselves. [Main] is
// what a handler needs otherwise. A program serves Impl with
//
//	plugin.Serve(&plugin.ServeConfig{
//		HandshakeConfig: serve.Handshake,
//		Plugins:         plugin.PluginSet{handlerpb.PluginName: &serve.Plugin{Impl: h}},
//		GRPCServer:      serve.GRPCServer,
//	})
//
// It then goes without what Main adds: the log with levels and events, the run by hand, the drain
// when informd is gone, and patience with signals that are not meant for it.
//
// A test, or another host, starts and drives any handler with
//
//	plugin.NewClient(&plugin.ClientConfig{
//		HandshakeConfig:  serve.Handshake,
//		Plugins:          plugin.PluginSet{handlerpb.PluginName: &serve.Plugin{}},
//		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
//		Cmd:              exec.Command("./oncall"),
//	})
//
// Dispense(handlerpb.PluginName) of that client returns a [handlerpb.HandlerClient]. Impl stays
// nil.
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin
	Impl handler.Handler

	service *service // of Main; nil: GRPCServer makes one for Impl
}

// GRPCServer implements plugin.GRPCPlugin: it registers the service that calls Impl.
func (p *Plugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	called := p.service
	if called == nil {
		if p.Impl == nil {
			return errors.New("serve.Plugin needs an Impl to serve")
		}
		called = &service{handler: p.Impl, name: filepath.Base(os.Args[0])}
	}
	handlerpb.RegisterHandlerServer(s, called)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin. It returns a [handlerpb.HandlerClient].
func (*Plugin) GRPCClient(
	_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn,
) (any, error) {
	return handlerpb.NewHandlerClient(conn), nil
}

// GRPCServer returns the gRPC server that [Plugin] needs, for plugin.ServeConfig. It accepts the
// largest event, decodes events as Plugin expects them, and recovers panics of the handler.
// plugin.DefaultGRPCServer does none of that.
func GRPCServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(handlerpb.MaxRequestBytes),
		grpc.MaxSendMsgSize(handlerpb.MaxResponseBytes),
		// Fixed flow control windows, larger than a batch, spare the probing for a better size.
		grpc.InitialWindowSize(flowWindow),
		grpc.InitialConnWindowSize(flowWindow),
		grpc.ForceServerCodecV2(wire.Codec()),
		grpc.UnaryInterceptor(recoverUnary),
	)...)
}

const flowWindow = 4 << 20
