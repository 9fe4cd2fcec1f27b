package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
)

// A rule that was paused stays so over a restart; what waits is delivered when it is resumed, and other rules do not wait.
func TestPausedRuleStaysPaused(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t))
	rules := k.text(source("configmaps", configMaps) + toldBy("log", "builtin: log") +
		ruleFor("paused", "source: configmaps, handler: log, "+sizes) + ruleFor("other", "source: configmaps, handler: log"))
	d := state.settled(rules)
	state.command("rule", "pause", "paused")
	web := k.create(configMap("web", "{size: '1'}"))
	k.sees(d, "other NS/web added")
	d.poll("it to wait", func() bool { return d.waiting("paused") == 1 })
	d.awaitWritten()
	d.kill()

	k.patch(web, "data: {size: '2'}")
	d = state.settled(rules)
	k.sees(d, "other NS/web updated")
	if got := d.waiting("paused"); got != 1 {
		t.Errorf("%d deliveries of the paused rule wait, want 1", got)
	}
	if events := d.await("", func([]handler.Event) bool { return true }); len(events) != 1 {
		t.Errorf("%d events, want the other rule's alone: %q", len(events), k.briefs(events))
	}
	state.command("rule", "resume", "paused")
	k.sawAll(d, "other NS/web updated", `paused NS/web added {"size":"2","was":null}`)
}

// What a daemon remembers can be asked for after a restart as before, and Secrets' data is masked unless it is asked for.
func TestAskingAfterRestart(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	k.create(configMap("red", "{team: red}"))
	k.create(configMap("blue", "{team: blue}"))
	k.create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: pass}, stringData: {word: hush-hush}}`)
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t))
	rules := k.text(source("configmaps", configMaps+", indexes: {byTeam: object.data.team}") +
		source("secrets", "resource: v1/secrets, namespaces: [NS]") + toldBy("log", "builtin: log") +
		ruleFor("rule", "source: configmaps, handler: log") + ruleFor("secret", "source: secrets, handler: log, payload: {}"))
	state.settled(rules).kill()

	d := state.settled(rules)
	if got := strings.Fields(state.command("get", "configmaps", "-o", "name", "--index", "byTeam=red")); len(got) != 1 || !strings.HasSuffix(got[0], "red") {
		t.Errorf("of team red there are %q, want the one", got)
	}
	if got := state.command("get", "configmaps", "-o", "name"); len(strings.Fields(got)) != 2 {
		t.Errorf("want both:\n%s", got)
	}
	const encoded = "aHVzaC1odXNo"
	if got := state.command("get", "secrets", "pass", "-o", "yaml"); strings.Contains(got, encoded) || !strings.Contains(got, "word") {
		t.Errorf("want the Secret with its data masked:\n%s", got)
	}
	var status any
	if err := json.Unmarshal([]byte(state.command("status", "-o", "json")), &status); err != nil {
		t.Errorf("informd status -o json: %v", err)
	}
	for _, want := range []string{"configmaps", "rule", "log"} {
		if got := state.command("status"); !strings.Contains(got, want) {
			t.Errorf("informd status does not tell of %s:\n%s", want, got)
		}
	}
	d.stop()
	if code, _, stderr := informd(t, "status", "--state-dir", state.dir); code != 1 || !strings.Contains(stderr, "no informd is running") {
		t.Errorf("with none running: exit code %d, %s", code, stderr)
	}
}
