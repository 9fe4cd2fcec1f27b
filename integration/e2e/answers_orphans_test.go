package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// partsOf is a rule that applies NAME-part for each ConfigMap that its source selects.
func partsOf(rule, source, more string) string {
	return harness.Source("parents", "resource: v1/configmaps, "+source) +
		harness.Rule(rule, `source: parents, prune: true, `+more+`actions: [
			{apply: {resource: v1/configmaps, object: {
				metadata: {namespace: "${object.metadata.namespace}", name: "${object.metadata.name}-part"},
				data: {part: "${object.metadata.name}"}}}}]`)
}

func parent(name, labels string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: ` + name + `, labels: {` + labels + `}}}`
}

// With the state, a changed selector prunes what was applied for the objects that it leaves out.
func TestPruneAfterAChangedSelector(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	name := "s" + k.Ns
	d := state.Settled(k.Text(partsOf(name, "namespaces: [NS], labelSelector: app=web", "")))
	k.Create(parent("a", "app: web"))
	b := k.Create(parent("b", `app: web, tier: front`))
	gone := k.Create(parent("gone", "app: web"))
	for _, name := range []string{"a", "b", "gone"} {
		k.Has(name+"-part", "part", name)
	}
	d.AwaitWritten()
	d.Kill()
	k.Delete(gone)
	k.Create(parent("c", "tier: front"))
	d = state.Settled(k.Text(partsOf(name, "namespaces: [NS], labelSelector: tier=front", "")))
	k.Gone("a-part")
	k.Gone("gone-part")
	k.Has("c-part", "part", "c")
	k.Has("b-part", "part", "b")
	k.Delete(b)
	k.Gone("b-part")
	d.Stop()
}

// Without the state, informd prunes what it applied for objects that are gone. What it applied for
// objects that exist and that it does not select may be another informd's, so it stays and is
// reported.
func TestOrphansWithoutAState(t *testing.T) {
	t.Parallel()
	k, other := harness.NewKube(t, cluster.Shared(t)), harness.NewKube(t, cluster.Shared(t))
	rule := "o" + k.Ns
	run := func(manifests string) *harness.Daemon {
		d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(manifests), "--state-dir", "none")
		d.AwaitReady()
		return d
	}
	d := run(partsOf(rule, "namespaces: [NS], labelSelector: app=web", ""))
	theirs := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), other.Text(partsOf(rule, "namespaces: [NS]", "")), "--state-dir", "none")
	other.Create(parent("theirs", ""))
	other.Has("theirs-part", "part", "theirs")
	k.Create(parent("left", "app: web"))
	gone := k.Create(parent("gone", "app: web"))
	k.Create(parent("stays", "app: web"))
	for _, name := range []string{"left", "gone", "stays"} {
		k.Has(name+"-part", "part", name)
	}
	d.Stop()
	theirs.Stop()
	k.Delete(gone)
	k.Patch(must(k, "left"), `metadata: {labels: {app: null}}`)

	d = run(partsOf(rule, "namespaces: [NS], labelSelector: app=web", ""))
	k.Gone("gone-part")
	d.AwaitLog("informd leaves them")
	line, _ := harness.FindLine(d.Logged(), "informd leaves them")
	for _, part := range []string{"objects=2", "left-part", "theirs-part", "kubectl get configmaps -A -l", "informd.dev/rule=" + rule, "left-part (for " + k.Ns + "/left)"} {
		if !strings.Contains(line, part) {
			t.Errorf("%s: %q is missing", line, part)
		}
	}
	k.Has("left-part", "part", "left")
	k.Has("stays-part", "part", "stays")
	other.Has("theirs-part", "part", "theirs")
	d.Stop()

	// A rule that does more than prune on a deletion leaves everything.
	k.Delete(must(k, "stays"))
	d = run(partsOf(rule, "namespaces: [NS], labelSelector: app=web", "when: object.data.keep == nil, "))
	d.AwaitLog("informd leaves them")
	if line, _ := harness.FindLine(d.Logged(), "informd leaves them"); !strings.Contains(line, "objects=3") {
		t.Error(line)
	}
	k.Has("stays-part", "part", "stays")
	d.Stop()
}

// The state was lost while an object was deleted.
func TestOrphansAfterALostState(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	rule := "l" + k.Ns
	manifests := k.Text(partsOf(rule, "namespaces: [NS], labelSelector: app=web", ""))
	state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	d := state.Settled(manifests)
	a := k.Create(parent("a", "app: web"))
	k.Create(parent("b", "app: web"))
	k.Has("a-part", "part", "a")
	k.Has("b-part", "part", "b")
	// as an older version applied it: nobody knows for which object
	k.Patch(must(k, "b-part"), `metadata: {annotations: {informd.dev/source-object: null}}`)
	d.Stop()
	k.Delete(a)
	state = harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
	d = state.Settled(manifests)
	k.Gone("a-part")
	d.AwaitDelivered()
	k.Has("b-part", "part", "b")
	if strings.Contains(d.Logged(), "informd leaves them") {
		t.Error("an object that is selected was reported")
	}
	if n := d.Metric("informd_dead_letters"); n != "0" {
		t.Errorf("%s dead letters", n)
	}
	d.Stop()
}

// A renamed rule prunes what it applied under its former name, with and without a state. What it
// applies again is its own under the new name, down to the fields that it applies no more.
func TestPruneOfARenamedRule(t *testing.T) {
	t.Parallel()
	for _, hasState := range []bool{true, false} {
		t.Run(fmt.Sprint(hasState), func(t *testing.T) {
			t.Parallel()
			k := harness.NewKube(t, cluster.Shared(t))
			state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
			run := func(manifests string) *harness.Daemon {
				if hasState {
					return state.Settled(k.Text(manifests))
				}
				d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(manifests), "--state-dir", "none")
				d.AwaitReady()
				return d
			}
			const source = "namespaces: [NS], labelSelector: app=web"
			d := run(partsOf("old-"+k.Ns, source, ""))
			a := k.Create(parent("a", "app: web"))
			b := k.Create(parent("b", "app: web"))
			c := k.Create(parent("c", "app: web"))
			for _, name := range []string{"a", "b", "c"} {
				k.Has(name+"-part", "part", name)
			}
			d.AwaitDelivered()
			d.Stop()
			k.Delete(a) // while nobody watches
			changed := strings.Replace(partsOf("new-"+k.Ns, source, "formerly: old-"+k.Ns+", "),
				`data: {part: `, `data: {now: `, 1)
			d = run(changed)
			k.Gone("a-part")
			k.Delete(b)
			k.Gone("b-part")
			k.Patch(c, "metadata: {annotations: {touched: 'yes'}}")
			k.Has("c-part", "now", "c")
			d.AwaitDelivered() // what it applies no more goes with a request of its own
			part := must(k, "c-part")
			got, err := k.Resource(part).Get(t.Context(), "c-part", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if data, _, _ := unstructured.NestedMap(got.Object, "data"); data["part"] != nil {
				t.Errorf("what the rule applies no more is still there: %v", data)
			}
			if label := got.GetLabels()["informd.dev/rule"]; label != "new-"+k.Ns {
				t.Errorf("its label names the rule %q", label)
			}
			d.AwaitDelivered()
			d.Stop()
			d = run(strings.Replace(changed, "formerly: old-"+k.Ns+", ", "", 1))
			k.Delete(c)
			k.Gone("c-part")
			d.Stop()
		})
	}
}

func must(k *harness.Kube, name string) *unstructured.Unstructured {
	o := new(unstructured.Unstructured)
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	o.SetNamespace(k.Ns)
	o.SetName(name)
	return o
}

// Where informd may not look for the source object, nobody can tell whether it is gone.
func TestOrphansWhereInformdMayNotLook(t *testing.T) {
	t.Parallel()
	k, other := harness.NewKube(t, cluster.Shared(t)), harness.NewKube(t, cluster.Shared(t))
	rules := func(namespaces string) string {
		return k.Text(harness.Source("parents", "resource: v1/configmaps, labelSelector: app=web, namespaces: ["+namespaces+"]") +
			harness.Rule("f"+k.Ns, `source: parents, prune: true, actions: [
				{apply: {resource: v1/secrets, object: {
					metadata: {namespace: NS, name: "${object.metadata.name}-part"}}}}]`))
	}
	isThere := func(name string) bool {
		_, err := k.Typed.CoreV1().Secrets(k.Ns).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	}
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), rules("NS, "+other.Ns), "--state-dir", "none")
	d.AwaitReady()
	gone := []*unstructured.Unstructured{k.Create(parent("here", "app: web")), other.Create(parent("there", "app: web"))}
	k.Eventually("both parts", func() bool { return isThere("here-part") && isThere("there-part") })
	d.Stop()
	for _, o := range gone {
		k.Delete(o)
	}

	k.Allow("works", `[{apiGroups: [""], resources: [configmaps], verbs: [list, watch]}, {apiGroups: [""], resources: [secrets], verbs: [get, patch, create, delete]}]`)
	k.Create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: NS}, rules: [{apiGroups: [""], resources: [secrets], verbs: [list]}]}`)
	k.Create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: NS}, ` +
		`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NS}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: NS}]}`)
	d = harness.RunInformd(t, k.Limited(t), rules("NS"), "--state-dir", "none")
	d.AwaitLog("informd leaves them")
	k.Eventually("the part that belongs to nobody to go", func() bool { return !isThere("here-part") })
	if line, _ := harness.FindLine(d.Logged(), "informd leaves them"); !strings.Contains(line, "objects=1") || !isThere("there-part") {
		t.Error(line)
	}
	d.Stop()
}

// What a renamed rule applies to the object of its event, or to a status, is its own under the new
// name: what it applies no more goes.
func TestFieldsOfARenamedRule(t *testing.T) {
	t.Parallel()
	const identity = `namespace: "${object.metadata.namespace}", name: "${object.metadata.name}"`
	for _, c := range []struct{ resource, object, path string }{
		{"v1/pods", `{metadata: {` + identity + `, annotations: {FIELD: here}}}`, "metadata annotations"},
		{"v1/pods/status", `{metadata: {` + identity + `}, status: {FIELD: here}}`, "status"},
	} {
		t.Run(c.resource, func(t *testing.T) {
			t.Parallel()
			k := harness.NewKube(t, cluster.Shared(t))
			run := func(name, more, field string) *harness.Daemon {
				d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(
					harness.Source("all", "resource: v1/pods, namespaces: [NS]")+
						harness.Rule(name, `source: all, `+more+`actions: [{apply: {resource: `+c.resource+`, object: `+
							strings.Replace(c.object, "FIELD", field, 1)+`}}]`)), "--state-dir", "none")
				d.AwaitReady()
				return d
			}
			pod := k.Create(harness.Pod("web", "nginx"))
			fields := func() map[string]any {
				got, err := k.Resource(pod).Get(t.Context(), "web", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				fields, _, _ := unstructured.NestedMap(got.Object, strings.Fields(c.path)...)
				return fields
			}
			d := run("old-"+k.Ns, "", "message")
			k.Eventually("the rule to apply", func() bool { return fields()["message"] == "here" })
			d.AwaitDelivered()
			d.Stop()
			d = run("new-"+k.Ns, "formerly: old-"+k.Ns+", ", "reason")
			k.Eventually("the renamed rule to apply", func() bool { return fields()["reason"] == "here" })
			d.AwaitDelivered()
			if value, isThere := fields()["message"]; isThere {
				t.Errorf("what the rule applies no more is still there: %v", value)
			}
			d.Stop()
		})
	}
}
