package integration

import (
	"testing"

	"github.com/informd/informd/integration/cluster"
)

// Where what a rule looks into is not served, nothing is found there; what it applied for what was there is not pruned for that.
func TestActionsPruneNothingForWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t))
	manifests := k.text(source("configmaps", configMaps) +
		source("rooms", "resource: informd.test/v1/rooms, indexes: {all: '\"yes\"'}") +
		ruleFor("furnishes", `source: configmaps, where: 'object.metadata.labels.plan == "yes"', prune: true, actions: [
			{forEach: 'lookup("rooms.all", "yes")', apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-${item.metadata.name}"}, data: {turn: "${object.data.turn}"}}}}]`))
	crd := k.define("Room")
	room := func(name string) {
		k.create(`{apiVersion: informd.test/v1, kind: Room, metadata: {namespace: NS, name: ` + name + `}}`)
	}
	room("hall")
	room("attic")
	house := k.create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: house, labels: {plan: "yes"}}, data: {turn: "1"}}`)
	d := state.settled(manifests)
	k.has("house-hall", "turn", "1")
	k.has("house-attic", "turn", "1")
	d.awaitWritten()
	d.kill()

	k.undefine(t.Context(), crd)
	k.patch(house, `data: {turn: "2"}`)
	d = state.run(manifests)
	d.awaitLog("to prune by nothing would delete all that it applied: rooms")
	k.has("house-hall", "turn", "1")
	k.has("house-attic", "turn", "1")

	k.define("Room")
	room("hall")
	k.patch(house, `data: {turn: "3"}`)
	k.has("house-hall", "turn", "3")
	k.gone("house-attic")
	d.stop()
}

// Also what a rule deletes itself, or has leave its where, it prunes behind itself.
func TestActionsPruneAfterOwnChanges(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t))
	d := state.settled(k.text(source("configmaps", configMaps) +
		ruleFor("serves", `source: configmaps, where: 'object.metadata.labels.plan == "yes"', prune: true, actions: [
			{if: object.data.end == nil, apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-part"}, data: {part: "yes"}}}},
			{if: 'object.data.end == "leave"', apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-last"}, data: {part: "last"}}}},
			{if: 'object.data.end == "leave"', patch: {merge: {metadata: {labels: {plan: "no"}}}}},
			{if: 'object.data.end == "delete"', apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-last"}, data: {part: "last"}}}},
			{if: 'object.data.end == "delete"', delete: {}}]`)))
	for _, end := range []string{"leave", "delete"} {
		o := k.create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: ` + end + `, labels: {plan: "yes"}}, data: {}}`)
		k.has(end+"-part", "part", "yes")
		k.patch(o, "data: {end: "+end+"}")
		k.gone(end + "-part")
	}
	d.awaitDelivered()
	k.gone("leave-last")
	k.gone("delete-last")
	d.stop()
}
