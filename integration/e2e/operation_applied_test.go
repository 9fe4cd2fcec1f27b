package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// TestApplied follows what a rule has applied once the rule is gone: it is listed, another rule is
// refused, adopts it and prunes what it does not want, and in the end it is deleted. An object that
// only has the labels stays.
func TestApplied(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	manifests := func(rule string, more ...string) string {
		text := harness.Source("originals", harness.ConfigMaps+", labelSelector: copy=yes")
		if rule != "" {
			text += harness.Rule(rule, strings.Join(more, "")+`source: originals, prune: true, actions: [{apply: {resource: v1/configmaps, object: `+
				`{metadata: {namespace: NS, name: 'copy-${object.metadata.name}'}, data: '${object.data}'}}}]`)
		}
		return harness.WriteFile(t, "rules-"+rule+".yaml", k.Text(text))
	}
	former, now, none := manifests(k.Ns+"-former"), manifests(k.Ns+"-now"), manifests("")
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := harness.Informd(t, append([]string{"applied"}, append(args, "--kubeconfig", c.Kubeconfig())...)...)
		if code != want {
			t.Fatalf("informd applied %s: exit code %d: %s%s", strings.Join(args, " "), code, stdout, stderr)
		}
		return stdout, stderr
	}
	holds := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in:\n%s", part, text)
			}
		}
	}

	k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: a, labels: {copy: "yes"}}, data: {x: "1"}}`)
	b := k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: b, labels: {copy: "yes"}}, data: {x: "1"}}`)
	d := harness.RunInformd(t, c.Kubeconfig(), former)
	k.Has("copy-a", "x", "1")
	k.Has("copy-b", "x", "1")
	d.AwaitDelivered()
	d.Stop()
	k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: decoy, labels: {informd.dev/rule: NS-former}}}`)

	out, _ := run(0, "list", "--rule", k.Ns+"-former", "-f", now)
	holds(out, "left", "copy-a", "copy-b")
	if strings.Contains(out, "decoy") {
		t.Errorf("the list has what the rule did not apply:\n%s", out)
	}
	out, _ = run(0, "list", "-f", former)
	holds(out, k.Ns+"-former", "applied")

	renamed := manifests(k.Ns+"-renamed", "formerly: NS-former, ")
	out, _ = run(0, "list", "-f", renamed)
	holds(out, k.Ns+"-former", "applied")
	_, said := run(1, "prune", "--rule", k.Ns+"-former", "-f", renamed, "--yes")
	holds(said, k.Text("the rule NS-former is called NS-renamed now: what it has applied belongs to it"))
	out, _ = run(0, "adopt", "--from", k.Ns+"-former", "--to", k.Ns+"-renamed", "-f", renamed)
	holds(out, "would be adopted")

	_, said = run(1, "adopt", "--from", k.Ns+"-former", "--to", k.Ns+"-now", "-f", former)
	holds(said, "there is no rule "+k.Ns+"-now")
	out, _ = run(0, "adopt", "--from", k.Ns+"-former", "--to", k.Ns+"-now", "-f", now)
	holds(out, "would be adopted", "repeat the command with --yes")

	socket := filepath.Join(harness.ShortDir(t), "s")
	d = harness.RunInformd(t, c.Kubeconfig(), now, "--control", socket)
	k.Eventually("two refused copies", func() bool { return d.Metric("informd_dead_letters") == "2" })
	out, _ = run(0, "adopt", "--from", k.Ns+"-former", "--to", k.Ns+"-now", "--control", socket, "--yes")
	holds(out, "/copy-a: adopted", "/copy-b: adopted")
	out, _ = run(0, "list", "--control", socket, "-o", "json", "--rule", k.Ns+"-now")
	holds(out, `"name": "copy-a"`, `"left": false`)
	if code, _, stderr := harness.Informd(t, "dead", "retry", "--all", "--control", socket); code != 0 {
		t.Fatal(stderr)
	}
	k.Eventually("the copies to be the rule's", func() bool { return d.Metric("informd_dead_letters") == "0" })
	d.AwaitDelivered()
	k.Delete(b)
	k.Gone("copy-b")
	if n := d.Metric("informd_dead_letters"); n != "0" {
		t.Errorf("%s dead letters", n)
	}

	_, said = run(1, "prune", "--rule", k.Ns+"-now", "--control", socket)
	holds(said, "what it has applied belongs to it")
	if err := os.Rename(none, now); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, line string }{{"plan", "rule NS-now is gone: "}, {"reload", "rule NS-now: "}} {
		code, out, stderr := harness.Informd(t, c.command, "--control", socket)
		if code != 0 {
			t.Fatal(stderr)
		}
		holds(out, k.Text(c.line)+"what it has applied stays: informd applied lists it")
	}
	holds(d.Logged(), "what it has applied stays: informd applied lists it")
	out, _ = run(0, "prune", "--rule", k.Ns+"-now", "--control", socket)
	holds(out, "/copy-a: would be deleted")
	k.Has("copy-a", "x", "1")
	out, _ = run(0, "prune", "--rule", k.Ns+"-now", "--control", socket, "--yes")
	holds(out, "/copy-a: deleted")
	k.Gone("copy-a")
	out, _ = run(0, "prune", "--rule", k.Ns+"-former", "-f", now, "--yes")
	holds(out, "there is nothing that it has applied")
	if _, err := k.ConfigMap("decoy"); err != nil {
		t.Error(err)
	}
}

// TestAppliedByOthers has rules that are gone whose objects others apply too: prune leaves those, and
// adopt joins what both rules own. A name that is none reaches nothing.
func TestAppliedByOthers(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	file := harness.WriteFile(t, "rules.yaml", k.Text(harness.Source("originals", harness.ConfigMaps+", labelSelector: copy=yes")+
		harness.Rule("NS-live", `source: originals, prune: true, actions: [{apply: {resource: v1/configmaps, object: {metadata: {namespace: NS, name: x}}}}]`)))
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		args = append([]string{"applied"}, append(args, "-f", file, "--kubeconfig", c.Kubeconfig())...)
		code, stdout, stderr := harness.Informd(t, args...)
		if code != want {
			t.Fatalf("informd %s: exit code %d: %s%s", strings.Join(args, " "), code, stdout, stderr)
		}
		return stdout, stderr
	}
	holds := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, k.Text(part)) {
				t.Errorf("no %q in:\n%s", part, text)
			}
		}
	}
	apply := func(manager, manifest string) *unstructured.Unstructured {
		t.Helper()
		o := new(unstructured.Unstructured)
		if err := yaml.Unmarshal([]byte(k.Text("{apiVersion: v1, kind: ConfigMap, "+manifest+"}")), &o.Object); err != nil {
			t.Fatal(err)
		}
		o, err := k.Resource(o).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: k.Text(manager), Force: true})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	label := "labels: {informd.dev/rule: NS-gone}"
	apply("informd/NS-gone", "metadata: {namespace: NS, name: alone, "+label+"}, data: {x: '1'}")
	held := apply("informd/NS-gone", "metadata: {namespace: NS, name: held, finalizers: [example.com/held], "+label+"}, data: {x: '1'}")
	apply("informd/NS-gone", "metadata: {namespace: NS, name: shared, "+label+"}, data: {x: '1'}")
	apply("kubectl", "metadata: {namespace: NS, name: shared}, data: {w: '1'}")
	taken := apply("informd/NS-gone", "metadata: {namespace: NS, name: taken, "+label+"}, data: {x: '1'}")
	if _, err := k.Resource(taken).Patch(t.Context(), "taken", types.MergePatchType, []byte(`{"data":{"w":"1"}}`),
		metav1.PatchOptions{FieldManager: "kubectl-client-side-apply"}); err != nil {
		t.Fatal(err)
	}
	apply("informd/NS-live", "metadata: {namespace: NS, name: own, labels: {informd.dev/rule: NS-live}}, data: {x: '1'}")

	_, said := run(1, "prune", "--rule", k.Ns+"-live,x!=y", "--yes")
	holds(said, `no rule can have the name "NS-live,x!=y"`)
	k.Has("own", "x", "1")
	out, _ := run(0, "list", "--rule", k.Ns+"-typo")
	holds(out, "there is no rule NS-typo, and none of that name has left anything")

	for _, yes := range []string{"", "--yes"} {
		args := []string{"prune", "--rule", k.Ns + "-gone"}
		lines := []string{"/alone: would be deleted", "/held: would be deleted"}
		if yes != "" {
			args, lines = append(args, yes), []string{"/alone: deleted", "/held: deleted once its finalizers are gone"}
		}
		out, _ = run(0, args...)
		holds(out, append(lines, "/shared: stays: also applied by kubectl", "/taken: stays: also applied by kubectl-client-side-apply")...)
		k.Has("shared", "x", "1")
	}
	k.Gone("alone")

	apply("informd/NS-live", "metadata: {namespace: NS, name: shared}, data: {z: '1'}")
	out, _ = run(0, "adopt", "--from", k.Ns+"-gone", "--to", k.Ns+"-live", "--yes")
	holds(out, "/shared: adopted")
	shared, err := k.ConfigMap("shared")
	if err != nil {
		t.Fatal(err)
	}
	owns := ""
	for _, m := range shared.ManagedFields {
		switch m.Manager {
		case "informd/" + k.Ns + "-gone":
			t.Error("the former rule still owns fields")
		case "informd/" + k.Ns + "-live":
			owns += m.FieldsV1.GetRawString()
		}
	}
	holds(owns, `"f:x"`, `"f:z"`, `"f:informd.dev/rule"`)
	apply("informd/NS-live", "metadata: {namespace: NS, name: shared}")
	if shared, err = k.ConfigMap("shared"); err != nil || len(shared.Data) != 1 || shared.Data["w"] != "1" {
		t.Errorf("the rule applies nothing of what it has adopted, and %v is left (%v)", shared.Data, err)
	}
	k.Patch(held, "metadata: {finalizers: null}")
}
