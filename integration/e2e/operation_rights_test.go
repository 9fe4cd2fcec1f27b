package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// everyKind uses each kind of right: in a namespace, by name, for each verb of an action, in the
// cluster.
const everyKind = `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods, namespaces: [NS]}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: settings}
spec: {resource: v1/configmaps, namespaces: [NS], fieldSelector: metadata.name=settings}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: log}
spec: {builtin: log}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: settings}
spec: {source: settings, handler: log}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: failed}
spec:
  source: pods
  where: object.status.phase == "Failed"
  events: [added, updated, synced]
  actions:
  - patch: {merge: {metadata: {labels: {reported: "yes"}}}}
  - patch: {resource: v1/pods/status, merge: {status: {reason: Reported}}}
  - create: {resource: v1/services, object: {metadata: {namespace: NS, name: failed}, spec: {ports: [{port: 80}]}}}
  - delete: {resource: v1/secrets, namespace: NS, name: stale}
  - event: {reason: Reported}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: summary}
spec:
  source: pods
  prune: true
  actions:
  - apply: {resource: v1/configmaps, object: {metadata: {namespace: NS, name: summary}, data: {pod: "${object.metadata.name}"}}}
`

// informd does all that its manifests say with exactly the rights that informd rbac prints. Without
// any one line of them, --check and the status say which.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	rules := harness.WriteFile(t, "rules.yaml", k.Text(everyKind))
	code, printed, errs := harness.Informd(t, "rbac", "-f", rules, "--service-account", k.Ns+"/informd")
	if code != 0 {
		t.Fatal(errs)
	}
	roles := harness.Documents(t, printed)
	k.Apply(roles)
	kubeconfig, state := k.AccountKubeconfig(c, "informd"), harness.ShortDir(t)
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: stale}}`)
	d := harness.RunInformd(t, kubeconfig, rules, "--state-dir", state)
	d.AwaitReady()
	k.Create(harness.ConfigMap("settings", "{}"))
	k.Sees(d, "settings NS/settings added")
	pod := k.Create(harness.Pod("web", "busybox"))
	k.Has("summary", "pod", "web")
	k.Patch(pod, `status: {phase: Failed}`, "status")
	for _, verb := range []string{"patch", "create", "delete", "event"} {
		series := fmt.Sprintf(`informd_actions_total{handler="(actions)",result=%%q,rule="failed",verb=%q}`, verb)
		result := "done"
		if verb == "create" {
			result = "created"
		}
		d.Poll(verb, func() bool { return !slices.Contains([]string{"", "0"}, d.Metric(fmt.Sprintf(series, result))) })
	}
	k.Delete(pod)
	k.Gone("summary")
	d.AwaitDelivered()
	d.Poll("no right to be missing", func() bool { return d.Metric("informd_rights_missing") == "0" })
	if log := d.Logged(); strings.Contains(log, "orbidden") || strings.Contains(log, "code=403") {
		t.Errorf("something was forbidden:\n%s", log)
	}
	more := harness.WriteFile(t, "more.yaml", k.Text(everyKind)+k.Text(`
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: services}
spec: {resource: v1/services, namespaces: [NS]}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: services}
spec: {source: services, handler: log}
`))
	if code, out, errs := harness.Informd(t, "plan", "-f", more, "--state-dir", state); code != 0 ||
		!strings.Contains(out, "rule services is new") || !strings.Contains(out, "informd would lack 2 rights") || !strings.Contains(out, "resources: [services], verbs: [list, watch]") {
		t.Errorf("informd plan: exit code %d: %s\n%s", code, errs, out)
	}
	check := func() (int, string) {
		code, out, _ := harness.Informd(t, "rbac", "-f", rules, "--check", "--kubeconfig", kubeconfig)
		return code, out
	}
	if code, out := check(); code != 0 || strings.Contains(out, "MISSING") || strings.Contains(out, "TOO MUCH") {
		t.Errorf("with all rights: exit code %d\n%s", code, out)
	}

	// The daemon asks often once something is missing, so it starts that way.
	d.Stop()
	lines := 0
	d = nil
	for _, o := range roles {
		var role rbacv1.ClusterRole
		if !strings.HasSuffix(o.GetKind(), "Role") {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		all, _, err := unstructured.NestedSlice(o.Object, "rules")
		if err != nil {
			t.Fatal(err)
		}
		for i, rule := range role.Rules {
			lines++
			without := o.DeepCopy()
			if err := unstructured.SetNestedSlice(without.Object, slices.Delete(slices.Clone(all), i, i+1), "rules"); err != nil {
				t.Fatal(err)
			}
			k.Apply([]*unstructured.Unstructured{without})
			want := fmt.Sprintf("resources: [%s]", rule.Resources[0])
			if len(rule.ResourceNames) > 0 {
				want += fmt.Sprintf(", resourceNames: [%s]", strings.Join(rule.ResourceNames, ", "))
			}
			want += fmt.Sprintf(", verbs: [%s]}", strings.Join(rule.Verbs, ", "))
			says := func(text string) bool {
				return strings.Contains(text, want) && strings.Count(text, "- {apiGroups: ") == 1
			}
			k.Eventually("--check to find "+want, func() bool {
				code, out := check()
				return code == 1 && says(out)
			})
			if d == nil {
				d = harness.RunInformd(t, kubeconfig, rules, "--state-dir", state)
			}
			d.Poll("the status to have "+want, func() bool {
				_, out, _ := harness.Informd(t, "status", "--state-dir", state)
				return says(out)
			})
			if _, body := d.Get("/readyz"); !strings.Contains(body, " are missing\n") || strings.Contains(body, "apiGroups") {
				t.Errorf("/readyz: %s", body)
			}
			if n := d.Metric("informd_rights_missing"); n != fmt.Sprint(len(rule.Verbs)*max(1, len(rule.ResourceNames))) {
				t.Errorf("without %s, informd_rights_missing is %s", want, n)
			}
		}
		k.Apply([]*unstructured.Unstructured{o})
	}
	if lines < 8 {
		t.Errorf("only %d lines", lines)
	}
	d.AwaitReady()
	d.Poll("nothing to be missing", func() bool {
		code, body := d.Get("/readyz")
		return code == http.StatusOK && !strings.Contains(body, "rights")
	})
	d.Stop()

	// An operator asks for the daemon's account, and hears what is too much.
	k.Create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {namespace: NS, name: more}, ` +
		`rules: [{apiGroups: [""], resources: [secrets], verbs: [get, list]}, {apiGroups: [apps], resources: ["*"], verbs: ["*"]}]}`)
	k.Create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: NS, name: more}, ` +
		`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: more}, subjects: [{kind: ServiceAccount, name: informd, namespace: NS}]}`)
	account := "system:serviceaccount:" + k.Ns + ":informd"
	k.Eventually("what is too much", func() bool {
		code, out, _ := harness.Informd(t, "rbac", "-f", rules, "--check", "--kubeconfig", c.Kubeconfig(), "--as", account)
		return code == 0 && strings.HasPrefix(out, account+" at ") && strings.HasSuffix(out, k.Text(`
TOO MUCH
every verb of every resource of group apps in namespace NS
get secrets in namespace NS: needed only for those named stale
list secrets in namespace NS
`))
	})
	code, out, _ := harness.Informd(t, "rbac", "-f", rules, "--check", "-o", "json", "--kubeconfig", c.Kubeconfig(), "--as", account+"-x")
	var report struct {
		User    string
		Needed  int
		Missing []struct {
			Resource   string
			Verbs, Why []string
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 || report.User != account+"-x" ||
		len(report.Missing) == 0 || len(report.Missing[0].Verbs) == 0 || len(report.Missing[0].Why) == 0 {
		t.Errorf("informd rbac --check -o json: exit code %d, %v\n%s", code, err, out)
	}
}

// What failed for want of a right goes on once somebody grants it, and then nothing is wrong.
func TestGrantedRight(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	rules := harness.WriteFile(t, "rules.yaml", k.Text(`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: settings}
spec: {resource: v1/configmaps, namespaces: [NS]}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: log}
spec: {builtin: log}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: secret}
spec:
  source: settings
  handler: log
  where: object.metadata.name == "settings"
  actions:
  - create: {resource: v1/secrets, object: {metadata: {namespace: NS, name: made}}}
`))
	code, printed, errs := harness.Informd(t, "rbac", "-f", rules, "--service-account", k.Ns+"/informd")
	if code != 0 {
		t.Fatal(errs)
	}
	roles := harness.Documents(t, printed)
	k.Apply(roles)
	var whole *unstructured.Unstructured
	for _, o := range roles {
		all, _, _ := unstructured.NestedSlice(o.Object, "rules")
		i := slices.IndexFunc(all, func(rule any) bool { return strings.Contains(fmt.Sprint(rule), "secrets") })
		if i < 0 {
			continue
		}
		whole = o
		without := o.DeepCopy()
		if err := unstructured.SetNestedSlice(without.Object, slices.Delete(all, i, i+1), "rules"); err != nil {
			t.Fatal(err)
		}
		k.Apply([]*unstructured.Unstructured{without})
	}
	kubeconfig, state := k.AccountKubeconfig(c, "informd"), harness.ShortDir(t)
	k.Create(harness.ConfigMap("settings", "{}"))
	d := harness.RunInformd(t, kubeconfig, rules, "--state-dir", state)
	d.AwaitReady()
	d.Poll("the rule to fail", func() bool {
		_, out, _ := harness.Informd(t, "status", "--state-dir", state)
		return strings.Contains(out, "403 Forbidden") && strings.Contains(out, "informd lacks") &&
			strings.Contains(out, "-> grant the permission; informd then goes on by itself, or at once: informd rule retry secret")
	})
	k.Apply([]*unstructured.Unstructured{whole})
	made := harness.Documents(t, k.Text(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: made}}`))[0]
	k.Eventually("the secret", func() bool {
		_, err := k.Resource(made).Get(t.Context(), "made", metav1.GetOptions{})
		return err == nil
	})
	d.Poll("nothing to be wrong", func() bool {
		_, out, _ := harness.Informd(t, "status", "--state-dir", state)
		return !strings.Contains(out, "WRONG") && !strings.Contains(out, "403")
	})
}

// The rights that informd rbac prints for the examples are enough, and none too many.
func TestRightsOfExamples(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	for _, folder := range []string{"rules", "actions", "webhook"} {
		manifests := harness.Root + "/examples/" + folder
		kubeconfig := harness.LeastRights(t, c, manifests)
		code, out, errs := harness.Informd(t, "rbac", "-f", manifests, "--check", "--kubeconfig", kubeconfig)
		if code != 0 || strings.Contains(out, "MISSING") || strings.Contains(out, "TOO MUCH") {
			t.Errorf("%s: exit code %d\n%s%s", folder, code, out, errs)
		}
	}
}
