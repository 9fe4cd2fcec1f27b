package e2e

import (
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// With prune, informd deletes what a rule applied for an object and no longer yields, and nothing
// else.
func TestActionsPrune(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t)) // prune lists all namespaces
	manifests := k.Text(harness.Source("configmaps", harness.ConfigMaps) +
		harness.Rule("parts", `source: configmaps, where: 'object.metadata.labels.plan == "yes"', prune: true, actions: [
			{forEach: keys(object.data), apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-${item}"}, data: {part: "${object.data[item]}"}}}}]`))
	d := state.Settled(manifests)
	plan := func(name, data string) string {
		return `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: ` + name + `, labels: {plan: "yes"}}, data: ` + data + `}`
	}
	k.Create(harness.ConfigMap("house-foreign", "{part: foreign}"))
	house, shed := k.Create(plan("house", "{door: red, roof: flat}")), k.Create(plan("shed", "{door: green}"))
	k.Has("house-door", "part", "red")
	k.Has("house-roof", "part", "flat")
	k.Has("shed-door", "part", "green")

	k.Patch(house, "data: {door: blue, roof: null}")
	k.Gone("house-roof")
	k.Has("house-door", "part", "blue")
	d.AwaitWritten()
	d.Kill()

	k.Patch(house, "data: {door: null, wall: thick}")
	k.Delete(shed)
	d = state.Settled(manifests)
	k.Gone("house-door")
	k.Gone("shed-door")
	k.Has("house-wall", "part", "thick")

	k.Patch(house, "metadata: {labels: {plan: null}}") // it no longer belongs to the rule
	k.Gone("house-wall")
	k.Patch(house, `metadata: {labels: {plan: "yes"}}`)
	k.Has("house-wall", "part", "thick")
	k.Delete(house)
	k.Gone("house-wall")
	k.Has("house-foreign", "part", "foreign")
	d.AwaitDelivered()
	d.Stop()
}
