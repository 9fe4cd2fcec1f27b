package e2e

import (
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// A lookup into a resource that is not served finds nothing. informd does not prune for that reason
// what the rule applied before: the rule waits.
func TestUnreadableSourcesPreventPruning(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	manifests := k.Text(harness.Source("configmaps", harness.ConfigMaps) +
		harness.Source("rooms", "resource: informd.test/v1/rooms, indexes: {all: '\"yes\"'}") +
		harness.Rule("furnishes", `source: configmaps, where: 'object.metadata.labels.plan == "yes"', prune: true, actions: [
			{forEach: 'lookup("rooms.all", "yes")', apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-${item.metadata.name}"}, data: {turn: "${object.data.turn}"}}}}]`))
	crd := k.Define("Room")
	room := func(name string) {
		k.Create(`{apiVersion: informd.test/v1, kind: Room, metadata: {namespace: NS, name: ` + name + `}}`)
	}
	room("hall")
	room("attic")
	house := k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: house, labels: {plan: "yes"}}, data: {turn: "1"}}`)
	d := state.Settled(manifests)
	k.Has("house-hall", "turn", "1")
	k.Has("house-attic", "turn", "1")
	d.AwaitWritten()
	d.Kill()

	k.Undefine(t.Context(), crd)
	k.Patch(house, `data: {turn: "2"}`)
	d = state.Run(manifests)
	d.Poll("the rule to wait", func() bool {
		_, out, _ := harness.Informd(t, "status", "--state-dir", state.Dir)
		return strings.Contains(out, "rule furnishes waits for what it looks into: rooms is not served")
	})
	k.Has("house-hall", "turn", "1")
	k.Has("house-attic", "turn", "1")

	k.Define("Room")
	room("hall")
	d.Poll("informd to have read the room", func() bool { // which may be after the next change of the house
		return state.Command("get", "rooms", "-o", "name") != ""
	})
	k.Patch(house, `data: {turn: "3"}`)
	k.Has("house-hall", "turn", "3")
	k.Gone("house-attic")
	d.Stop()
}

// A rule also prunes for an object that it deletes itself, or that leaves its where by the rule's
// own change.
func TestActionsPruneAfterOwnChanges(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	d := state.Settled(k.Text(harness.Source("configmaps", harness.ConfigMaps) +
		harness.Rule("serves", `source: configmaps, where: 'object.metadata.labels.plan == "yes"', prune: true, actions: [
			{if: object.data.end == nil, apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-part"}, data: {part: "yes"}}}},
			{if: 'object.data.end == "leave"', apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-last"}, data: {part: "last"}}}},
			{if: 'object.data.end == "leave"', patch: {merge: {metadata: {labels: {plan: "no"}}}}},
			{if: 'object.data.end == "delete"', apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-last"}, data: {part: "last"}}}},
			{if: 'object.data.end == "delete"', delete: {}}]`)))
	for _, end := range []string{"leave", "delete"} {
		o := k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: ` + end + `, labels: {plan: "yes"}}, data: {}}`)
		k.Has(end+"-part", "part", "yes")
		k.Patch(o, "data: {end: "+end+"}")
		k.Gone(end + "-part")
	}
	d.AwaitDelivered()
	k.Gone("leave-last")
	k.Gone("delete-last")
	d.Stop()
}
