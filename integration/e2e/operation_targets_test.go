package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// TestShownTargets has one copy that waits for a quota, one that is refused for good and one that is
// done. Each command says so of each copy, with the reason and the next attempt.
func TestShownTargets(t *testing.T) {
	t.Parallel()
	k, dir := harness.NewKube(t, cluster.Shared(t)), harness.ShortDir(t)
	more := k.Namespaces(2)
	full, frozen := more[0], more[1]
	k.Quota(full, 0)
	k.Create(`{apiVersion: v1, kind: ConfigMap, immutable: true, ` +
		`metadata: {namespace: ` + frozen + `, name: made}, data: {x: fixed}}`)
	d, _ := copied(t, k, dir, "made", full, frozen, k.Ns)
	k.HasCopies("made", []string{k.Ns}, "x", "0")
	counts := func(state string) string {
		return d.Metric(`informd_targets{rule="copies",state="` + state + `"}`)
	}
	d.Poll("each target to be settled", func() bool {
		return counts("done") == "1" && counts("waits") == "1" && counts("refused") == "1"
	})
	if n := counts("behind"); n != "0" {
		t.Errorf("%s targets are behind others", n)
	}
	var next time.Time
	k.Eventually("the next attempt to be far", func() bool {
		next = nextAttempt(t, dir)
		return time.Until(next) > 10*time.Second
	})

	kubeconfig := []string{"--kubeconfig", cluster.Shared(t).Kubeconfig()}
	list := func(args ...string) []listedTarget { return listTargets(t, dir, args...) }
	waiting := list("--state", "waits")
	if len(waiting) != 1 {
		t.Fatalf("%d targets wait, want one: %+v", len(waiting), waiting)
	}
	if w := waiting[0]; w.Namespace != full || w.Name != "made" || w.For != k.Ns+"/o" ||
		w.Rule != "copies" || w.Cause != "quota" || !strings.Contains(w.Reason, "exceeded quota") ||
		w.Failures < 2 || !w.Next.After(time.Now()) || w.Owner != nil {
		t.Errorf("what waits is %+v", w)
	}
	for namespace, want := range map[string]string{full: "waits", frozen: "refused", k.Ns: "done"} {
		of := list(append(kubeconfig, "--rule", "copies", "-n", namespace)...)
		if len(of) != 1 || of[0].State != want {
			t.Errorf("the copy in %s is %+v, want one that is %s", namespace, of, want)
		}
	}
	if of := list("-n", frozen, "--state", "refused"); len(of) != 1 || of[0].Cause != "immutable" {
		t.Errorf("what is refused in %s: %+v", frozen, of)
	}
	contains := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in:\n%s", part, text)
			}
		}
	}
	table, _ := says(t, dir, "applied", "list", "--state", "waits")
	contains(table, "RULE     STATE   RESOURCE        NAMESPACE", "   in ", "403 Forbidden: configmaps")
	if strings.Contains(table, "apply of") {
		t.Errorf("a row names the target twice:\n%s", table)
	}

	status, _ := says(t, dir, "status", "-o", "wide")
	contains(status, "copies: 3 targets: 1 is done, 1 waits, 1 is refused\n",
		"    v1/configmaps "+full+"/made for "+k.Ns+"/o is tried again in ",
		"    v1/configmaps "+frozen+"/made for "+k.Ns+"/o is refused: ")
	explained, _ := says(t, dir, "explain", "copies", k.Ns+"/o")
	contains(explained, "\nTARGETS\nSTATE     RESOURCE        NAMESPACE", "\nwaits     v1/configmaps   "+full,
		"\nrefused   v1/configmaps   "+frozen, "\ndone      v1/configmaps   "+k.Ns)
	events, _ := says(t, dir, "events", "--rule", "copies")
	contains(events, ", comes again; 3 targets: 1 is done, 1 waits, 1 is refused\n")
	if n := strings.Count(events, "3 targets: "); n != 1 {
		t.Errorf("%d attempts have targets, want the last one:\n%s", n, events)
	}

	for name, want := range map[string]string{
		"copie":        "there is no rule copie, and none of that name has left anything; did you mean copies?",
		k.Ns + "-typo": "there is no rule " + k.Ns + "-typo, and none of that name has left anything\n",
	} {
		said, code := says(t, dir, append([]string{"applied", "list", "--rule", name}, kubeconfig...)...)
		if contains(said, want); code != 0 {
			t.Errorf("--rule %s: exit code %d", name, code)
		}
	}
	if said, code := says(t, dir, "applied", "list", "--state", "waits", "-f", dir); code != 2 {
		t.Errorf("--state with -f: exit code %d\n%s", code, said)
	}
}

// listedTarget is a target as informd applied list prints it.
type listedTarget struct {
	explain.Target
	Left bool
}

// listTargets returns what informd applied list prints with these arguments.
func listTargets(t *testing.T, dir string, args ...string) (found []listedTarget) {
	t.Helper()
	args = append([]string{"applied", "list", "-o", "json", "--state-dir", dir}, args...)
	code, stdout, stderr := harness.Informd(t, args...)
	if err := json.Unmarshal([]byte(stdout), &found); err != nil || code != 0 {
		t.Fatalf("informd %s: exit code %d, %v\n%s%s", strings.Join(args, " "), code, err, stdout, stderr)
	}
	return found
}

// TestReasonsThatQuoteSecrets has a webhook refuse a Secret, in words that quote it. What is shown of
// the target has who refuses, and nothing of the Secret.
func TestReasonsThatQuoteSecrets(t *testing.T) {
	t.Parallel()
	k, dir := harness.NewKube(t, cluster.Shared(t)), harness.ShortDir(t)
	refuses := k.Ns + "-deny" // see askWebhook
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: refuses, Labels: map[string]string{"refuses": refuses},
	}}
	client := k.Typed.CoreV1()
	if _, err := client.Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	askWebhook(t, k, "deny", denying(t))
	k.Eventually("the webhook to be asked", func() bool {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := client.ConfigMaps(refuses).Create(t.Context(), probe, dryRun)
		return err != nil
	})
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(
		harness.Source("secrets", "resource: v1/secrets, labelSelector: copy=yes")+
			harness.Rule("copies", `source: secrets, actions: [{apply: {resource: v1/configmaps, object: {
				metadata: {namespace: NS-deny, name: deny-403}, data: {x: "${object.data.x}"}}}}]`)),
		"--state-dir", dir)
	d.AwaitReady()
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: o, labels: {copy: "yes"}}, ` +
		`data: {x: aHVudGVyMg==}}`)
	var waiting []listedTarget
	k.Eventually("the copy to wait", func() bool {
		waiting = listTargets(t, dir, "--state", "waits")
		return len(waiting) == 1
	})
	if w := waiting[0]; w.Cause != "webhook" || w.Reason == "" {
		t.Errorf("what waits is %+v", w)
	}
	for _, args := range [][]string{
		{"applied", "list", "--state", "waits"}, {"applied", "list", "--state", "waits", "-o", "json"},
		{"status", "-o", "wide"}, {"status", "-o", "json"}, {"explain", "copies", k.Ns + "/o"},
		{"explain", "copies", k.Ns + "/o", "-o", "json"}, {"events", "-o", "json"}, {"events", "-o", "wide"},
	} {
		said, code := says(t, dir, args...)
		if code != 0 || strings.Contains(said, "aHVudGVyMg") || strings.Contains(said, "hunter2") {
			t.Errorf("informd %s: exit code %d, and the Secret's value may be in\n%s",
				strings.Join(args, " "), code, said)
		}
	}
	d.Stop()
}

// TestShownOwners has two objects of one rule ask for one target. Each command says who owns it. Once
// the owner is gone, the other one is shown as the owner. plan and reload say what it means to take
// prune out of the rule: what it has applied stays.
func TestShownOwners(t *testing.T) {
	t.Parallel()
	k, dir := harness.NewKube(t, cluster.Shared(t)), harness.ShortDir(t)
	to, rule := k.Namespaces(1)[0], k.Ns+"-copies"
	manifests := func(prune string) string {
		return k.Text(harness.Source("originals", "resource: v1/configmaps, labelSelector: copy=NS") +
			harness.Rule(rule, `source: originals, actions: [{apply: {resource: v1/configmaps, object: {
				metadata: {namespace: `+to+`, name: dup}, data: {x: "${object.data.x}"}}}}]`+prune))
	}
	file := harness.WriteFile(t, "rules.yaml", manifests(", prune: true"))
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), file, "--state-dir", dir)
	d.AwaitReady()
	original := func(name, x string) *unstructured.Unstructured {
		return k.Create(k.Text(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: ` + name +
			`, labels: {copy: NS}}, data: {x: "` + x + `"}}`))
	}
	counts := func(state string) string {
		return d.Metric(`informd_targets{rule="` + rule + `",state="` + state + `"}`)
	}
	first := original("a", "1")
	k.HasCopies("dup", []string{to}, "x", "1")
	d.AwaitDelivered()
	original("b", "2")
	d.Poll("the second object to be refused", func() bool { return counts("behind") == "1" })
	kubeconfig := []string{"--kubeconfig", cluster.Shared(t).Kubeconfig()}
	rows := func() (rows []string) {
		t.Helper()
		for _, one := range listTargets(t, dir, append(kubeconfig, "-n", to)...) {
			owner := "nobody"
			if one.Owner != nil {
				owner = one.Owner.Object
			}
			rows = append(rows, strings.Join([]string{one.State, one.Name, one.For, owner}, " "))
		}
		return rows
	}
	k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: ` + to + `, name: decoy, ` +
		`labels: {informd.dev/rule: gone}}}`)
	want := []string{
		"done dup " + k.Ns + "/a " + k.Ns + "/a", "behind dup " + k.Ns + "/b " + k.Ns + "/a",
	}
	if diff := cmp.Diff(want, rows()); diff != "" {
		t.Errorf("informd applied list (-want +got)\n%s", diff)
	}
	contains := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in:\n%s", part, text)
			}
		}
	}
	owned := k.Ns + "/a of rule " + rule + " owns it\n"
	status, _ := says(t, dir, "status", "-o", "wide")
	contains(status, rule+": 2 targets: 1 is done, 1 is behind its owner\n",
		"    v1/configmaps "+to+"/dup for "+k.Ns+"/b: "+owned)
	explained, _ := says(t, dir, "explain", rule, k.Ns+"/b")
	contains(explained, "behind   v1/configmaps   "+to+"   dup    -      "+owned)

	if err := os.WriteFile(file, []byte(manifests("")), 0o600); err != nil {
		t.Fatal(err)
	}
	const released = "it no longer prunes: what it has applied stays, and goes to the next"
	planned, _ := says(t, dir, "plan")
	contains(planned, "rule "+rule+" changes: ", released)

	k.Delete(first)
	k.HasCopies("dup", []string{to}, "x", "2")
	d.Poll("the other object to be the owner", func() bool {
		return counts("behind") == "0" && counts("done") == "1"
	})
	want = []string{"done dup " + k.Ns + "/b " + k.Ns + "/b"}
	if diff := cmp.Diff(want, rows()); diff != "" {
		t.Errorf("informd applied list after the first object is gone (-want +got)\n%s", diff)
	}
	reloaded, _ := says(t, dir, "reload")
	contains(reloaded, "rule "+rule+": "+released)
	d.Poll("the rule to own nothing", func() bool { return counts("done") == "0" })
	k.HasCopies("dup", []string{to}, "x", "2")
	if got := rows(); len(got) != 1 || !strings.HasPrefix(got[0], "applied dup ") {
		t.Errorf("without prune, informd applied list has %v", got)
	}
	d.Stop()
}
