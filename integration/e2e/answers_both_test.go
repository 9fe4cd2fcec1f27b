package e2e

import (
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// A rule with a handler and actions acts once the handler has acknowledged the event, and after the
// actions of its answer. It prunes what it applied once the handler has received the deletion.
func TestHandlerAndActions(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	p := newTheater(t)
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	manifests := k.Text(harness.Source("configmaps", harness.ConfigMaps) +
		p.puppet("access: {write: [{resource: v1/configmaps, verbs: [patch], namespaces: [NS]}]}") +
		harness.Rule("both", `source: configmaps, where: object.data.turn != nil, handler: puppet, prune: true, actions: [
			{apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-part"}, data: {part: "${object.data.turn}"}}}},
			{if: event != "deleted", patch: {merge: {metadata: {annotations: {told: "${object.data.turn}"}}}}}]`))
	d := state.Settled(manifests)
	house := k.Create(scripted("house", `[{"verb":"patch","patch":{"metadata":{"labels":{"by":"puppet"}}}}]`, `turn: "1", hold: "yes"`))
	k.Eventually("the event", func() bool { return len(p.told("house")) == 1 })
	k.Gone("house-part")
	p.release("house")
	k.Has("house-part", "part", "1")
	k.Eventually("the marks of both", func() bool {
		o, err := k.ConfigMap("house")
		return err == nil && o.Labels["by"] == "puppet" && o.Annotations["told"] == "1"
	})
	d.AwaitDelivered()
	if told := p.told("house"); len(told) != 1 { // their own changes are not told
		t.Errorf("told %+v", told)
	}

	k.Create(scripted("bad", `[`, `turn: "1"`)) // the puppet rejects it
	d.Poll("a dead letter", func() bool { return d.Metric("informd_dead_letters") == "1" })
	d.AwaitDelivered()
	k.Gone("bad-part")

	k.Create(harness.ConfigMap("blocked-part", `{part: theirs}`)) // the rule did not apply it
	k.Create(scripted("blocked", ``, `turn: "1"`))
	d.Poll("another dead letter", func() bool { return d.Metric("informd_dead_letters") == "2" })
	d.AwaitLog("the handler acknowledged the event, but the rule's own actions failed")
	d.AwaitWritten()
	d.Kill()

	k.Delete(house)
	d = state.Settled(manifests)
	k.Gone("house-part")
	d.AwaitDelivered()
	told := p.told("house")
	if len(told) != 2 || told[1].Event != "deleted" {
		t.Errorf("told %+v", told)
	}
	if told := p.told("blocked"); len(told) != 1 {
		t.Errorf("told %+v", told)
	}
	if code, _, stderr := harness.Informd(t, "dead", "retry", "--state-dir", state.Dir, "--rule", "both"); code != 0 {
		t.Errorf("retry: %d, %s", code, stderr)
	}
	k.Eventually("the whole event again", func() bool { return len(p.told("blocked")) == 2 })
	d.Stop()
}
