package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/serve"
)

// Under a host that passes on no standard output, log refuses to write there: every event would be
// done, and nobody would see it.
func TestLogUnderAnotherHost(t *testing.T) {
	t.Parallel()
	c := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  serve.Handshake,
		Plugins:          plugin.PluginSet{handlerpb.PluginName: &serve.Plugin{}},
		Cmd:              exec.Command(harness.Binary, "handler", "serve", "log"),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		StartTimeout:     harness.Patience,
		Logger:           hclog.NewNullLogger(),
	})
	defer c.Kill()
	protocol, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	dispensed, err := protocol.Dispense(handlerpb.PluginName)
	if err != nil {
		t.Fatal(err)
	}
	api := dispensed.(handlerpb.HandlerClient)
	if _, err := api.Describe(t.Context(), &handlerpb.DescribeRequest{}); err != nil {
		t.Fatal(err)
	}
	configure := func(config string) []*handlerpb.Problem {
		resp, err := api.Configure(t.Context(), &handlerpb.ConfigureRequest{Config: []byte(config)})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetProblems()
	}
	if p := configure(`{}`); len(p) != 1 || !strings.HasPrefix(p[0].GetMessage(), "path: required") {
		t.Errorf("without a path: %v", p)
	}
	if p := configure(fmt.Sprintf(`{"path": %q}`, filepath.Join(t.TempDir(), "events"))); len(p) != 0 {
		t.Errorf("with a path: %v", p)
	}
}
