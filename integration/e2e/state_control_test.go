package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// A paused rule stays paused over a restart, and other rules do not wait. When it is resumed,
// informd delivers what waits.
func TestPausedRuleStaysPaused(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
		harness.Rule("paused", "source: configmaps, handler: log, "+sizes) + harness.Rule("other", "source: configmaps, handler: log"))
	d := state.Settled(rules)
	state.Command("rule", "pause", "paused")
	web := k.Create(harness.ConfigMap("web", "{size: '1'}"))
	k.Sees(d, "other NS/web added")
	d.Poll("it to wait", func() bool { return d.Waiting("paused") == 1 })
	d.AwaitWritten()
	d.Kill()

	k.Patch(web, "data: {size: '2'}")
	d = state.Settled(rules)
	k.Sees(d, "other NS/web updated")
	// They are two until the one on disk is loaded.
	d.Poll("what waits to be one delivery", func() bool { return d.Waiting("paused") == 1 })
	if events := d.Await("", func([]handler.Event) bool { return true }); len(events) != 1 {
		t.Errorf("%d events, want the other rule's alone: %q", len(events), k.Briefs(events))
	}
	state.Command("rule", "resume", "paused")
	k.SawAll(d, "other NS/web updated", `paused NS/web added {"size":"2","was":null}`)
}

// After a restart, commands can read what the daemon remembers as before. Data of Secrets is masked
// unless a flag asks for it.
func TestControlCommandsAfterRestart(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Create(harness.ConfigMap("red", "{team: red}"))
	k.Create(harness.ConfigMap("blue", "{team: blue}"))
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: pass}, stringData: {word: hush-hush}}`)
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps+", indexes: {byTeam: object.data.team}") +
		harness.Source("secrets", "resource: v1/secrets, namespaces: [NS]") + harness.Handler("log", "builtin: log") +
		harness.Rule("rule", "source: configmaps, handler: log") + harness.Rule("secret", "source: secrets, handler: log, payload: {}"))
	state.Settled(rules).Kill()

	d := state.Settled(rules)
	if got := strings.Fields(state.Command("get", "configmaps", "-o", "name", "--index", "byTeam=red")); len(got) != 1 || !strings.HasSuffix(got[0], "red") {
		t.Errorf("of team red there are %q, want the one", got)
	}
	if got := state.Command("get", "configmaps", "-o", "name"); len(strings.Fields(got)) != 2 {
		t.Errorf("want both:\n%s", got)
	}
	const encoded = "aHVzaC1odXNo"
	if got := state.Command("get", "secrets", "pass", "-o", "yaml"); strings.Contains(got, encoded) || !strings.Contains(got, "word") {
		t.Errorf("want the Secret with its data masked:\n%s", got)
	}
	var status any
	if err := json.Unmarshal([]byte(state.Command("status", "-o", "json")), &status); err != nil {
		t.Errorf("informd status -o json: %v", err)
	}
	for _, want := range []string{"configmaps", "rule", "log"} {
		if got := state.Command("status"); !strings.Contains(got, want) {
			t.Errorf("informd status does not tell of %s:\n%s", want, got)
		}
	}
	d.Stop()
	if code, _, stderr := harness.Informd(t, "status", "--state-dir", state.Dir); code != 1 || !strings.Contains(stderr, "no informd is running") {
		t.Errorf("with none running: exit code %d, %s", code, stderr)
	}
}
