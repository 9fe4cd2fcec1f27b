package integration

import (
	"testing"

	"github.com/informd/informd/integration/cluster"
)

// With prune, what a rule applied for an object and no longer yields goes; nothing else does.
func TestActionsPrune(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	state := newStateDir(t, cluster.Shared(t).Kubeconfig(), shortDir(t)) // what is pruned is looked for in all namespaces
	manifests := k.text(source("configmaps", configMaps) +
		ruleFor("parts", `source: configmaps, where: 'object.metadata.labels.plan == "yes"', prune: true, actions: [
			{forEach: keys(object.data), apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-${item}"}, data: {part: "${object.data[item]}"}}}}]`))
	d := state.settled(manifests)
	plan := func(name, data string) string {
		return `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: ` + name + `, labels: {plan: "yes"}}, data: ` + data + `}`
	}
	k.create(configMap("house-foreign", "{part: foreign}"))
	house, shed := k.create(plan("house", "{door: red, roof: flat}")), k.create(plan("shed", "{door: green}"))
	k.has("house-door", "part", "red")
	k.has("house-roof", "part", "flat")
	k.has("shed-door", "part", "green")

	k.patch(house, "data: {door: blue, roof: null}")
	k.gone("house-roof")
	k.has("house-door", "part", "blue")
	d.awaitWritten()
	d.kill()

	k.patch(house, "data: {door: null, wall: thick}")
	k.delete(shed)
	d = state.settled(manifests)
	k.gone("house-door")
	k.gone("shed-door")
	k.has("house-wall", "part", "thick")

	k.patch(house, "metadata: {labels: {plan: null}}") // it is not the rule's any more
	k.gone("house-wall")
	k.patch(house, `metadata: {labels: {plan: "yes"}}`)
	k.has("house-wall", "part", "thick")
	k.delete(house)
	k.gone("house-wall")
	k.has("house-foreign", "part", "foreign")
	d.awaitDelivered()
	d.stop()
}
