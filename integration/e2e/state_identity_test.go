package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// A cluster restored from a backup is older than the state. informd notices, and compares
// everything.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	c := cluster.New(t)
	k := harness.NewKube(t, c)
	changed, gone := k.Create(harness.ConfigMap("changed", "{size: '1'}")), k.Create(harness.ConfigMap("gone", "{size: '1'}"))
	k.Create(harness.ConfigMap("same", "{size: '1'}"))
	stop := func() {
		t.Helper()
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	start := func() {
		t.Helper()
		if err := c.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	backup := filepath.Join(t.TempDir(), "etcd")
	stop()
	copyFolder(t, filepath.Join(c.Dir(), "etcd"), backup)
	start()

	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
		harness.Rule("rule", "source: configmaps, handler: log, delivery: every, "+sizes))
	d := state.Settled(rules)
	k.Sees(d, "rule NS/same synced")
	for _, size := range []string{"2", "3", "4"} {
		k.Patch(changed, "data: {size: '"+size+"'}")
	}
	k.Delete(gone)
	k.Create(harness.ConfigMap("undone", "{size: '1'}"))
	k.Sees(d, "rule NS/undone added")
	d.AwaitWritten()
	d.Kill()

	stop()
	if err := os.RemoveAll(filepath.Join(c.Dir(), "etcd")); err != nil {
		t.Fatal(err)
	}
	copyFolder(t, backup, filepath.Join(c.Dir(), "etcd"))
	start()
	d = state.Settled(rules)
	k.Create(harness.ConfigMap("last", "{size: '1'}"))
	k.SawAll(d,
		`rule NS/changed updated {"size":"1","was":"4"}`, `rule NS/gone added {"size":"1","was":null}`,
		`rule NS/undone deleted {"size":"1","was":null}`, `rule NS/last added {"size":"1","was":null}`)
	if n := harness.Count(d.Logged(), "restored from a backup"); n != 1 {
		t.Errorf("nothing in the log says that the API server is in the past:\n%s", d.Logged())
	}
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// informd sets the state of another cluster aside, and treats every object as new.
func TestStateOfAnotherCluster(t *testing.T) {
	t.Parallel()
	one, kubeconfig := harness.NewStub(t)
	other, otherKubeconfig := harness.NewStub(t)
	one.Apply(harness.ConfigMapResource, `{"metadata":{"name":"here"}}`)
	other.Apply(harness.ConfigMapResource, `{"metadata":{"name":"there"}}`)
	rules := harness.Source("configmaps", "resource: v1/configmaps") + harness.Handler("log", "builtin: log") + harness.Rule("rule", "source: configmaps, handler: log")
	state := harness.NewStateDir(t, kubeconfig, harness.ShortDir(t))
	d := state.Settled(rules)
	d.Await("the object", func(events []handler.Event) bool { return len(events) == 1 })
	d.AwaitWritten()
	d.Kill()

	state.Kubeconfig = otherKubeconfig
	d = state.Settled(rules)
	d.Await("the other object", func(events []handler.Event) bool { return len(events) == 1 })
	d.Stop()
	if len(d.Events) != 1 || harness.Brief(d.Events[0]) != "rule default/there synced" {
		t.Errorf("%d events, the first %s; want one, of what is there", len(d.Events), harness.Brief(d.Events[0]))
	}
	if harness.Count(d.Logged(), "another cluster", state.Dir) == 0 {
		t.Errorf("nothing in the log says that the state is another cluster's:\n%s", d.Logged())
	}
}
