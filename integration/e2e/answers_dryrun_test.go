package e2e

import (
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// A dry run shows payloads, what actions would change, and what a prune would delete, and changes
// nothing. It shows no value of a Secret.
func TestDryRunShowsWhatWouldChange(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	name := "d" + k.Ns
	parents := partsOf(name, "namespaces: [NS], labelSelector: app=web", "")
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(parents), "--state-dir", "none")
	d.AwaitReady()
	k.Create(parent("stays", "app: web"))
	gone := k.Create(parent("gone", "app: web"))
	k.Has("gone-part", "part", "gone")
	k.Has("stays-part", "part", "stays")
	d.Stop()
	k.Delete(gone)
	one, encoded := harness.RandomSecret()
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: pull}, stringData: {password: ` + one + `}}`)

	more := strings.Replace(parents, "part: \"${object", "more: \"1\", part: \"${object", 1) +
		harness.Source("secrets", "resource: v1/secrets, namespaces: [NS]") +
		harness.Handler("hook", `builtin: webhook, config: {url: "http://127.0.0.1:1/"}`) +
		harness.Rule("told", `source: parents, handler: hook, payload: {text: "It is ${object.metadata.name}"}`) +
		harness.Rule("hidden", `source: secrets, handler: hook, payload: object.data.password, actions: [
			{patch: {merge: {metadata: {labels: {told: "yes"}}}}},
			{create: {resource: v1/configmaps, object: {metadata: {namespace: NS, name: leak}, data: {p: "${object.data.password}"}}}},
			{create: {resource: v1/configmaps, object: {metadata: {namespace: none-of-them, name: leak}}}}]`)
	d = harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(more), "--dry-run")
	for _, text := range []string{
		`It is stays`, `would act`, `+ data.more: \"1\"`, "payload=\"not shown: it may quote a Secret\"",
		"+ metadata.labels.told", "+ data.p", "namespace none-of-them does not exist", "name=gone-part outcome=deleted",
	} {
		d.AwaitLog(text)
	}
	d.Stop()
	if log := d.Logged(); strings.Contains(log, one) || strings.Contains(log, encoded) {
		t.Error("a Secret's data is in the log")
	}
	k.Has("gone-part", "part", "gone")
	k.Has("stays-part", "more", "")
	k.Gone("leak")
}
