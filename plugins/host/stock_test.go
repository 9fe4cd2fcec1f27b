package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"

	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host"
	"github.com/informd/informd/plugins/serve"
)

func init() { modes["stock"] = serveStock }

// serveStock is a handler that has nothing but go-plugin's server and the generated service.
func serveStock() {
	service := &raw{name: "stock", answer: func(seq uint64) *handlerpb.DeliverResponse {
		fmt.Println("printed")
		fmt.Fprintln(os.Stderr, "complained")
		return done(seq)
	}}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: serve.Handshake,
		Plugins:         plugin.PluginSet{handlerpb.PluginName: rawPlugin{service: service}},
		GRPCServer:      plugin.DefaultGRPCServer,
	})
	_ = os.WriteFile(os.Getenv("ENDED"), []byte(os.Getenv("PLUGIN_CLIENT_CERT")), 0o600)
}

// Stock go-plugin serves informd: over TLS, with its output redirected, until a request to shut
// down.
func TestStockServer(t *testing.T) {
	t.Parallel()
	log := &recorder{}
	s := spec("stock")
	ended := filepath.Join(t.TempDir(), "ended")
	s.Env = append(s.Env, "ENDED="+ended)
	h := host.New(s, patient(host.Options{RunDir: shortDir(t), Logger: log.logger(), StopTimeout: time.Minute}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = h.Run(ctx) }()
	ready(t, h)
	if name := h.Status().Handler.Name; name != "stock" {
		t.Errorf("it describes itself as %q", name)
	}
	if _, err := h.Handle(ctx, pod("x")); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"INFO printed handler=stock via=stdout", "INFO complained handler=stock via=stderr"} {
		waitFor(t, want, func() bool { return strings.Contains(strings.Join(log.lines(), "\n"), want) })
	}

	cancel()
	select {
	case <-stopped:
	case <-time.After(20 * time.Second): // far less than the time after which it is killed
		t.Error("it does not shut down")
	}
	if offer, err := os.ReadFile(ended); err != nil || !strings.Contains(string(offer), "CERTIFICATE") {
		t.Errorf("it did not end in good order, or was offered no TLS: %q, %v", offer, err)
	}
}
