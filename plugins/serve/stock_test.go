package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// dispense has a stock go-plugin client start this binary as a handler. It returns what the client
// dispenses.
func dispense(t *testing.T, env string, autoMTLS bool) (*plugin.Client, handlerpb.HandlerClient) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{env, "GORACE=atexit_sleep_ms=0"}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  Handshake,
		Plugins:          plugin.PluginSet{handlerpb.PluginName: &Plugin{}},
		Cmd:              cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         autoMTLS,
		Logger:           hclog.NewNullLogger(),
	})
	t.Cleanup(client.Kill)
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
	return client, dispensed.(handlerpb.HandlerClient)
}

// A stock go-plugin client starts a handler, drives it, and ends it.
func TestStockClient(t *testing.T) {
	for _, tls := range []bool{false, true} {
		t.Run(fmt.Sprintf("AutoMTLS=%v", tls), func(t *testing.T) {
			client, api := dispense(t, "HANDLER=1", tls)
			drive(t, api, filepath.Join(t.TempDir(), "out"))
			client.Kill()
			if !client.Exited() {
				t.Error("it lives on after Kill")
			}
		})
	}
}

// servePlugin is a program that calls go-plugin itself. Its handler writes the size of an object,
// and panics if that is what the config wants.
func servePlugin() {
	var file string
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake,
		Plugins: plugin.PluginSet{handlerpb.PluginName: &Plugin{Impl: &full{
			Func: func(_ context.Context, ev handler.Event) (handler.Answer, error) {
				return handler.Answer{}, os.WriteFile(file, []byte(strconv.Itoa(len(ev.Object))), 0o600)
			},
			configure: func(config json.RawMessage) error {
				if err := json.Unmarshal(config, &file); err != nil {
					panic(err)
				}
				return nil
			},
		}}},
		GRPCServer: GRPCServer,
		Logger:     hclog.NewNullLogger(),
	})
}

// A program that calls go-plugin itself has what Main gives: it takes large events, and lives on
// after a panic.
func TestPlugin(t *testing.T) {
	client, api := dispense(t, "PLUGIN=1", true)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := api.Configure(ctx, &handlerpb.ConfigureRequest{Config: []byte("{}")}); status.Code(err) != codes.Internal {
		t.Errorf("got %v, want a panic", err)
	}
	file := filepath.Join(t.TempDir(), "size")
	config, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.Configure(ctx, &handlerpb.ConfigureRequest{Config: config}); err != nil {
		t.Fatal(err)
	}
	stream, err := api.Deliver(ctx)
	if err != nil {
		t.Fatal(err)
	}
	large := &handlerpb.Event{Seq: 1, Id: "1", Event: handler.Added, Attempt: 1, Object: make([]byte, 5<<20)} // gRPC takes 4 MiB by default
	send(t, stream, &handlerpb.DeliverRequest{Events: []*handlerpb.Event{large}})
	answersOf(t, stream, 1)
	if size, err := os.ReadFile(file); err != nil || string(size) != strconv.Itoa(5<<20) {
		t.Errorf("it got %s bytes, %v", size, err)
	}
	client.Kill()
	if !client.Exited() {
		t.Error("it lives on after Kill")
	}
}

func TestPluginWithoutImpl(t *testing.T) {
	if err := new(Plugin).GRPCServer(nil, nil); err == nil || !strings.Contains(err.Error(), "Impl") {
		t.Errorf("got %v, want what is missing", err)
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
