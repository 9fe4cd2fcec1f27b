package e2e

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// No text of a Secret reaches the disk: not from the cache, from waiting deliveries, from dead
// letters or from the reasons that handlers give. After a restart, handlers still get what happened
// meanwhile, and waiting deliveries have their objects again.
func TestSecretsStayOffTheDisk(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	var values []string
	value := func() (encoded string) {
		v, encoded := harness.RandomSecret()
		values = append(values, v)
		return encoded
	}
	secret := func(name, value string) string {
		return `{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: ` + name + `, annotations: {note: "` + value + `"}}, data: {password: ` + value + `}}`
	}
	same := value()
	k.Create(secret("same", same))
	changed, gone := k.Create(secret("changed", value())), k.Create(secret("gone", value()))
	control := strings.ReplaceAll(rand.Text()+rand.Text(), "NS", "") // what is no secret is on disk, where this test looks for secrets
	k.Create(harness.ConfigMap("control", "{text: "+control+"}"))

	rules := func(handlers string) string {
		return k.Text(harness.Source("configmaps", harness.ConfigMaps) +
			harness.Source("secrets", "resource: v1/secrets, namespaces: [NS], indexes: {byPassword: object.data.password}") +
			harness.Handler("log", "builtin: log") + handlers +
			harness.Rule("control", "source: configmaps, handler: waits") +
			harness.Rule("told", "source: secrets, handler: log") +
			harness.Rule("waits", "source: secrets, handler: waits, delivery: every") +
			harness.Rule("paid", "source: secrets, handler: waits, payload: {password: object.data.password}") +
			harness.Rule("dead", "source: secrets, handler: dead, where: object.metadata.name == 'same'"))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	heard := filepath.Join(t.TempDir(), "heard")
	dead := harness.Handler("dead", fmt.Sprintf("command: [%q, %s, %q]", self, gossipCommand, heard))
	hold := rules(harness.Away("waits") + dead)
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	d := state.Settled(hold)
	for _, name := range []string{"same", "changed", "gone"} {
		k.Sees(d, "told NS/"+name+" synced")
	}
	d.Poll("the dead letter", func() bool { return d.Metric("informd_dead_letters") == "1" })
	d.Poll("the others to wait", func() bool { return d.Waiting("waits") == 3 && d.Waiting("paid") == 3 })
	d.AwaitWritten()
	harness.WantOnDisk(t, state.Dir, control)
	harness.WantNotOnDisk(t, state.Dir, values)
	d.Kill()
	harness.WantNotOnDisk(t, state.Dir, values)

	k.Patch(changed, "data: {password: "+value()+"}")
	k.Delete(gone)
	d = state.Settled(hold)
	k.Sees(d, "told NS/changed synced")
	k.Sees(d, "told NS/gone deleted")
	k.Create(secret("new", value()))
	k.Sees(d, "told NS/new added")
	d.AwaitWritten()
	harness.WantNotOnDisk(t, state.Dir, values)
	// A clean end leaves no more on disk than a crash.
	d.Stop()
	harness.WantNotOnDisk(t, state.Dir, values)
	harness.Compare(t, []string{"told NS/changed synced", "told NS/gone deleted", "told NS/new added"}, k.Briefs(d.Events))
	for _, ev := range d.Events {
		if ev.Event == handler.Deleted && (ev.UID == "" || bytes.Contains(ev.Object, []byte("password"))) {
			t.Errorf("the deletion does not come with its identity alone: %.300s", ev.Object)
		}
	}

	// Waiting deliveries and the dead letter have their objects again.
	harness.Touch(t, filepath.Dir(heard), filepath.Base(heard))
	d = state.Settled(rules(harness.Handler("waits", "builtin: log") + dead))
	for _, rule := range []string{"waits", "paid"} {
		for _, name := range []string{"same", "changed", "new"} {
			d.Await(rule+" of "+name, func(events []handler.Event) bool {
				for _, ev := range events {
					if ev.Rule == rule && ev.Name == name {
						return true
					}
				}
				return false
			})
		}
	}
	state.Command("dead", "retry", "--rule", "dead")
	k.Eventually("the dead letter to be delivered", func() bool { return len(harness.LinesOf(t, filepath.Dir(heard), "heard")) == 1 })
	if got := harness.LinesOf(t, filepath.Dir(heard), "heard")[0]; !strings.Contains(got, same) {
		t.Errorf("the dead letter does not have its object: %s", got)
	}
	d.AwaitWritten()
	d.Stop()
	for _, ev := range d.Events {
		text := string(ev.Object) + string(ev.Payload)
		if ev.Event != handler.Deleted && ev.Rule != "control" && !strings.Contains(text, "password\":\"") {
			t.Errorf("%s has no password: %s", harness.Brief(ev), text)
		}
		if ev.Name == "same" && !strings.Contains(text, same) {
			t.Errorf("%s has another password", harness.Brief(ev))
		}
	}
	harness.WantNotOnDisk(t, state.Dir, values)
}
