package integration

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
)

// With the API server away, a daemon that remembers is not ready on that alone. When the API server comes, all is told
// that happened since, and nothing else. Not parallel: a control plane of its own is enough for two cores.
func TestAPIServerComesLaterThanState(t *testing.T) {
	c := cluster.New(t)
	k := newKube(t, c)
	k.create(configMap("same", "{size: '1'}"))
	changed, gone := k.create(configMap("changed", "{size: '1'}")), k.create(configMap("gone", "{size: '1'}"))
	state := newStateDir(t, c.Kubeconfig(), shortDir(t))
	rules := k.text(source("configmaps", configMaps) + toldBy("log", "builtin: log") +
		ruleFor("rule", "source: configmaps, handler: log, delivery: every, "+sizes))
	d := state.settled(rules)
	for _, name := range []string{"same", "changed", "gone"} {
		k.sees(d, "rule NS/"+name+" synced")
	}
	d.awaitWritten()
	d.kill()
	k.patch(changed, "data: {size: '2'}")
	k.delete(gone)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}

	d = state.run(rules)
	d.awaitLog("waiting for the API server")
	if code, body := d.get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz without an API server: %d\n%s", code, body)
	}
	d.kill() // and what is remembered is remembered still
	d = state.run(rules)
	d.awaitLog("waiting for the API server")
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.awaitReady()
	k.create(configMap("last", "{size: '1'}"))
	k.sawAll(d,
		`rule NS/changed updated {"size":"2","was":"1"}`, `rule NS/gone deleted {"size":"1","was":null}`,
		`rule NS/last added {"size":"1","was":null}`)
}

// A state folder that is somebody else's loses nothing of what is in it. One that is a file is a mistake, and said so.
func TestStateFolderOfSomebodyElse(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	k.create(configMap("web", "{size: '1'}"))
	rules := k.text(source("configmaps", configMaps) + toldBy("log", "builtin: log") + ruleFor("rule", "source: configmaps, handler: log"))
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(shortDir(t), "precious")
		if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		d := newStateDir(t, cluster.Shared(t).Kubeconfig(), file).run(rules)
		if code := d.exitCode(); code != 1 || !strings.Contains(d.logged(), file) || !strings.Contains(d.logged(), "not a directory") {
			t.Errorf("exit code %d, want 1, and the reason:\n%s", code, d.logged())
		}
		if content, err := os.ReadFile(file); err != nil || string(content) != "precious" {
			t.Errorf("the file holds %q: %v", content, err)
		}
	})
	t.Run("a folder with other files", func(t *testing.T) {
		t.Parallel()
		dir := shortDir(t)
		for _, name := range []string{"notes", "000001.log", "store.txt"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d := newStateDir(t, cluster.Shared(t).Kubeconfig(), dir).settled(rules)
		d.stop()
		for _, name := range []string{"notes", "000001.log", "store.txt"} {
			if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != "precious" {
				t.Errorf("%s holds %q: %v", name, content, err)
			}
		}
		if strings.Contains(d.logged(), "level=ERROR") {
			t.Errorf("it complains of them:\n%s", d.logged())
		}
	})
}
