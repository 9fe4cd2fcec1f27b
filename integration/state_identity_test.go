package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
)

// A cluster that was restored from a backup is in the past of what informd remembers: that is noticed, and everything is
// compared.
func TestRestoredBackup(t *testing.T) {
	c := cluster.New(t)
	k := newKube(t, c)
	changed, gone := k.create(configMap("changed", "{size: '1'}")), k.create(configMap("gone", "{size: '1'}"))
	k.create(configMap("same", "{size: '1'}"))
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

	state := newStateDir(t, c.Kubeconfig(), shortDir(t))
	rules := k.text(source("configmaps", configMaps) + toldBy("log", "builtin: log") +
		ruleFor("rule", "source: configmaps, handler: log, delivery: every, "+sizes))
	d := state.settled(rules)
	k.sees(d, "rule NS/same synced")
	for _, size := range []string{"2", "3", "4"} {
		k.patch(changed, "data: {size: '"+size+"'}")
	}
	k.delete(gone)
	k.create(configMap("undone", "{size: '1'}"))
	k.sees(d, "rule NS/undone added")
	d.awaitWritten()
	d.kill()

	stop()
	if err := os.RemoveAll(filepath.Join(c.Dir(), "etcd")); err != nil {
		t.Fatal(err)
	}
	copyFolder(t, backup, filepath.Join(c.Dir(), "etcd"))
	start()
	d = state.settled(rules)
	k.create(configMap("last", "{size: '1'}"))
	k.sawAll(d,
		`rule NS/changed updated {"size":"1","was":"4"}`, `rule NS/gone added {"size":"1","was":null}`,
		`rule NS/undone deleted {"size":"1","was":null}`, `rule NS/last added {"size":"1","was":null}`)
	if n := count(d.logged(), "restored from a backup"); n != 1 {
		t.Errorf("nothing in the log says that the API server is in the past:\n%s", d.logged())
	}
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// State of one cluster says nothing of another: it is set aside, and all comes as at first sight.
func TestStateOfAnotherCluster(t *testing.T) {
	t.Parallel()
	one, kubeconfig := newStub(t)
	other, otherKubeconfig := newStub(t)
	one.Apply(stubConfigMaps, `{"metadata":{"name":"here"}}`)
	other.Apply(stubConfigMaps, `{"metadata":{"name":"there"}}`)
	rules := source("configmaps", "resource: v1/configmaps") + toldBy("log", "builtin: log") + ruleFor("rule", "source: configmaps, handler: log")
	state := newStateDir(t, kubeconfig, shortDir(t))
	d := state.settled(rules)
	d.await("the object", func(events []handler.Event) bool { return len(events) == 1 })
	d.awaitWritten()
	d.kill()

	state.kubeconfig = otherKubeconfig
	d = state.settled(rules)
	d.await("the other object", func(events []handler.Event) bool { return len(events) == 1 })
	d.stop()
	if len(d.events) != 1 || brief(d.events[0]) != "rule default/there synced" {
		t.Errorf("%d events, the first %s; want one, of what is there", len(d.events), brief(d.events[0]))
	}
	if count(d.logged(), "another cluster", state.dir) == 0 {
		t.Errorf("nothing in the log says that the state is another cluster's:\n%s", d.logged())
	}
}
