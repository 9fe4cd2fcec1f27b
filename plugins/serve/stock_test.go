package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handlerpb"
)

// stockPlugin is how a program that uses go-plugin, and nothing of informd's host, reaches a
// handler.
type stockPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (stockPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("a client serves nothing")
}

func (stockPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return handlerpb.NewHandlerClient(conn), nil
}

// A stock go-plugin client starts a handler, drives it, and ends it.
func TestStockClient(t *testing.T) {
	for _, tls := range []bool{false, true} {
		t.Run(fmt.Sprintf("AutoMTLS=%v", tls), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out")
			cmd := exec.Command(os.Args[0])
			cmd.Env = []string{"HANDLER=1", "GORACE=atexit_sleep_ms=0"}
			client := plugin.NewClient(&plugin.ClientConfig{
				HandshakeConfig: plugin.HandshakeConfig{
					MagicCookieKey: handlerpb.CookieKey, MagicCookieValue: handlerpb.CookieValue,
				},
				VersionedPlugins: map[int]plugin.PluginSet{
					handlerpb.ProtocolVersion: {handlerpb.PluginName: stockPlugin{}},
				},
				Cmd:              cmd,
				AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
				AutoMTLS:         tls,
				Logger:           hclog.NewNullLogger(),
			})
			defer client.Kill()
			protocol, err := client.Client()
			if err != nil {
				t.Fatal(err)
			}
			if err := protocol.Ping(); err != nil {
				t.Error(err)
			}
			dispensed, err := protocol.Dispense(handlerpb.PluginName)
			if err != nil {
				t.Fatal(err)
			}
			drive(t, dispensed.(handlerpb.HandlerClient), file)
			client.Kill()
			if !client.Exited() {
				t.Error("it lives on after Kill")
			}
		})
	}
}

// drive delivers one event to a writer, from its description to its drain.
func drive(t *testing.T, api handlerpb.HandlerClient, file string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	d, err := api.Describe(ctx, &handlerpb.DescribeRequest{InformdVersion: "stock"})
	if err != nil || d.GetName() == "" {
		t.Fatalf("Describe: %v, %v", d, err)
	}
	config, err := json.Marshal(map[string]string{"file": file})
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := api.Configure(ctx, &handlerpb.ConfigureRequest{Config: config}); err != nil || len(resp.GetProblems()) > 0 {
		t.Fatalf("Configure: %v, %v", resp, err)
	}
	stream, err := api.Deliver(ctx)
	if err != nil {
		t.Fatal(err)
	}
	event := &handlerpb.Event{
		Seq: 1, Id: "1", Rule: "r", Event: "added", Attempt: 1, Name: "a", Object: []byte(`{"a":1}`),
		TimeLimit: durationpb.New(10 * time.Second),
	}
	if err := stream.Send(&handlerpb.DeliverRequest{Events: []*handlerpb.Event{event}}); err != nil {
		t.Fatal(err)
	}
	// Without INFORMD_CACHE_SOCKET the writer may read no source, which it says by a retry.
	resp, err := stream.Recv()
	if err != nil || len(resp.GetDone())+len(resp.GetAnswers()) != 1 {
		t.Errorf("got %v, %v", resp, err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != `{"a":1}` {
		t.Errorf("it wrote %s, %v", got, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := api.Drain(ctx, &handlerpb.DrainRequest{}); err != nil {
		t.Error(err)
	}
}
