package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// Without the API server, a daemon with state is not ready. When the API server comes, handlers get
// what happened since, and nothing else.
func TestAPIServerComesLaterThanState(t *testing.T) {
	t.Parallel()
	c := cluster.New(t)
	k := harness.NewKube(t, c)
	k.Create(harness.ConfigMap("same", "{size: '1'}"))
	changed, gone := k.Create(harness.ConfigMap("changed", "{size: '1'}")), k.Create(harness.ConfigMap("gone", "{size: '1'}"))
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
		harness.Rule("rule", "source: configmaps, handler: log, delivery: every, "+sizes))
	d := state.Settled(rules)
	for _, name := range []string{"same", "changed", "gone"} {
		k.Sees(d, "rule NS/"+name+" synced")
	}
	d.AwaitWritten()
	d.Kill()
	k.Patch(changed, "data: {size: '2'}")
	k.Delete(gone)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}

	d = state.Run(rules)
	d.AwaitLog("waiting for the API server")
	if code, body := d.Get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz without an API server: %d\n%s", code, body)
	}
	d.Kill() // and what is remembered is remembered still
	d = state.Run(rules)
	d.AwaitLog("waiting for the API server")
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.AwaitReady()
	k.Create(harness.ConfigMap("last", "{size: '1'}"))
	k.SawAll(d,
		`rule NS/changed updated {"size":"2","was":"1"}`, `rule NS/gone deleted {"size":"1","was":null}`,
		`rule NS/last added {"size":"1","was":null}`)
}

// informd leaves foreign files in its state directory alone. A state directory that is a file is an
// error.
func TestStateDirOfAnotherUser(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Create(harness.ConfigMap("web", "{size: '1'}"))
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") + harness.Rule("rule", "source: configmaps, handler: log"))
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(harness.ShortDir(t), "precious")
		if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		d := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), file).Run(rules)
		if code := d.ExitCode(); code != 1 || !strings.Contains(d.Logged(), file) || !strings.Contains(d.Logged(), "not a directory") {
			t.Errorf("exit code %d, want 1, and the reason:\n%s", code, d.Logged())
		}
		if content, err := os.ReadFile(file); err != nil || string(content) != "precious" {
			t.Errorf("the file holds %q: %v", content, err)
		}
	})
	t.Run("a folder with other files", func(t *testing.T) {
		t.Parallel()
		dir := harness.ShortDir(t)
		for _, name := range []string{"notes", "000001.log", "store.txt"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), dir).Settled(rules)
		d.Stop()
		for _, name := range []string{"notes", "000001.log", "store.txt"} {
			if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != "precious" {
				t.Errorf("%s holds %q: %v", name, content, err)
			}
		}
		if strings.Contains(d.Logged(), "level=ERROR") {
			t.Errorf("it complains of them:\n%s", d.Logged())
		}
	})
}
