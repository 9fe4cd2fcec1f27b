package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/host/confine"
)

// rewrite replaces text of an example, which must be there once.
func rewrite(t *testing.T, path, from, to string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), from) != 1 {
		t.Fatalf("%q is not there once in %s", from, path)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o700); err != nil {
		t.Fatal(err)
	}
}

// A bug in configure shows in the log with the place where it happened, and so does what the
// handler prints.
func TestTracesReachTheLog(t *testing.T) {
	t.Parallel()
	bugs := map[string]struct{ file, from, to, place string }{
		"python": {"diary.py", "    def configure(self, config):\n", "    def configure(self, config):\n        return self.mistaken()\n\n" +
			"    def mistaken(self):\n        print(\"seen\")\n        raise KeyError(\"boom\")\n\n    def was(self, config):\n", "in mistaken"},
		"node": {"diary.js", "async function configure(config) {\n", "async function configure(config) {\n  console.log('seen')\n  mistaken()\n}\n\n" +
			"function mistaken() { throw new Error('boom') }\n\nasync function was(config) {\n", "at mistaken"},
	}
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		bug := bugs[t.Name()[strings.LastIndex(t.Name(), "/")+1:]]
		rewrite(t, filepath.Join(dir, bug.file), bug.from, bug.to)
		_, log := runDiary(t, command, filepath.Join(dir, "diary"), confine.Spec{})
		for _, want := range []string{"boom", bug.place, "seen"} {
			within(t, "the log has "+want, func() bool { return strings.Contains(log.String(), want) })
		}
	})
}

// A host that uses go-plugin as it comes can run the examples. It names no directory for sockets,
// and standard input has nothing in it.
func TestOtherHosts(t *testing.T) {
	t.Parallel()
	inEachLanguage(t, func(t *testing.T, dir string, command []string) {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = dir
		c := plugin.NewClient(&plugin.ClientConfig{
			HandshakeConfig:  plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "INFORMD_HANDLER_COOKIE", MagicCookieValue: "3b1c2f3c0c5e4f0f9a57c1e2d0a2f7c1"},
			Plugins:          plugin.PluginSet{"handler": nil},
			Cmd:              cmd,
			AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
			StartTimeout:     harness.Patience,
			Logger:           hclog.NewNullLogger(),
		})
		defer c.Kill()
		protocol, err := c.Client()
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if err := protocol.Ping(); err != nil || c.Exited() {
				t.Fatalf("it has ended: %v", err)
			}
		}
	})
}
