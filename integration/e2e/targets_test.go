package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// copies copies a ConfigMap with the label copy=yes to the namespaces that it names, as MADE.
const copies = `source: configmaps, actions: [
	{forEach: 'split(object.data.to, ",")', apply: {resource: v1/configmaps, object: {
		metadata: {namespace: "${item}", name: MADE}, data: {x: "${object.data.x}"}}}}]`

// copied runs a daemon with the rule copies, and makes a ConfigMap o that it copies, as name.
func copied(
	t *testing.T, k *harness.Kube, state, name string, to ...string,
) (*harness.Daemon, func(x string)) {
	t.Helper()
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(
		harness.Source("configmaps", harness.ConfigMaps+", labelSelector: copy=yes")+
			harness.Rule("copies", strings.Replace(copies, "MADE", name, 1))), "--state-dir", state)
	d.AwaitReady()
	o := k.Create(`{apiVersion: v1, kind: ConfigMap, ` +
		`metadata: {namespace: NS, name: o, labels: {copy: "yes"}}, ` +
		`data: {x: "0", to: "` + strings.Join(to, ",") + `"}}`)
	return d, func(x string) { k.Patch(o, `data: {x: "`+x+`"}`) }
}

// A rule copies an object to three namespaces, and one of them has a full quota. Newer changes of
// the object reach the other two, although informd tries the third less and less often. Once there
// is room, the third gets what is newest. informd does nothing twice for the same change.
func TestOneTargetWithAFullQuota(t *testing.T) {
	t.Parallel()
	k, dir := harness.NewKube(t, cluster.Shared(t)), harness.ShortDir(t)
	more := k.Namespaces(2)
	full, healthy := more[0], []string{k.Ns, more[1]}
	k.Quota(full, 0)
	d, change := copied(t, k, dir, "made", full, k.Ns, more[1])
	k.HasCopies("made", healthy, "x", "0")
	tries := func() int { return d.Actions("copies", "apply", "failed") }
	d.Poll("the quota to refuse the third copy twice", func() bool { return tries() >= 2 })

	const changes = 8
	first := tries()
	for x := 1; x <= changes; x++ {
		time.Sleep(time.Second) // so that changes do not merge, and each could have its own attempt
		before, began := tries(), time.Now()
		change(fmt.Sprint(x))
		k.HasCopies("made", healthy, "x", fmt.Sprint(x))
		took, during := time.Since(began), tries()-before
		t.Logf("change %d arrived after %v, and %d tries at the third copy",
			x, took.Round(time.Millisecond), during)
		if took > 20*time.Second {
			t.Errorf("change %d took %v, as if it had waited for the third copy", x, took)
		}
	}
	// Its delays double, from a second on.
	if n := tries() - first; n >= changes {
		t.Errorf("%d changes made informd try the third copy %d times", changes, n)
	}
	if m := k.Copies("made")[full]; m != nil {
		t.Fatal("the quota is not full")
	}
	status, _ := says(t, dir, "status", "-o", "wide")
	explained, _ := says(t, dir, "explain", "copies", k.Ns+"/o")
	for what, text := range map[string]string{"status": status, "explain": explained} {
		if !strings.Contains(text, "exceeded quota") || strings.Contains(text, "grant the permission") {
			t.Errorf("informd %s does not say that it is the quota:\n%s", what, text)
		}
	}
	if want := "raise the quota of the namespace"; !strings.Contains(status, want) {
		t.Errorf("informd status lacks %q:\n%s", want, status)
	}

	before := tries()
	k.Quota(full, 9)
	var made *corev1.ConfigMap
	k.Eventually("the third copy", func() bool {
		made = k.Copies("made")[full]
		return made != nil
	})
	if x := made.Data["x"]; x != fmt.Sprint(changes) {
		t.Errorf("the third copy began with change %s", x)
	}
	if n := tries() - before; n > 1 { // one may have been under way
		t.Errorf("the third copy came %d tries after there was room", n)
	}
	d.AwaitDelivered()
	wantLetters(t, d, 0)
	d.Stop()
	wantOnce(t, d.Logged(), healthy...)
}

// A namespace that an object names does not exist. The other copies are made and changed meanwhile.
// The missing one is made at the next attempt once the namespace exists, or when somebody asks for
// that.
func TestNamespaceThatAppears(t *testing.T) {
	t.Parallel()
	k, dir := harness.NewKube(t, cluster.Shared(t)), harness.ShortDir(t)
	healthy, late := append(k.Namespaces(1), k.Ns), k.Ns+"-late"
	d, change := copied(t, k, dir, "made", late, healthy[0], k.Ns)
	k.HasCopies("made", healthy, "x", "0")
	change("1")
	k.HasCopies("made", healthy, "x", "1")
	var next time.Time
	k.Eventually("the next attempt to be far", func() bool {
		next = nextAttempt(t, dir)
		return time.Until(next) > 5*time.Second
	})
	status, _ := says(t, dir, "status", "-o", "wide")
	if !strings.Contains(status, "make the namespace "+late) {
		t.Errorf("informd status does not name the namespace:\n%s", status)
	}
	harness.CreateNamespace(t, k.Typed, late)
	if _, code := says(t, dir, "rule", "retry", "copies"); code != 0 {
		t.Errorf("informd rule retry: exit code %d", code)
	}
	k.HasCopies("made", []string{late}, "x", "1")
	if time.Now().After(next) {
		t.Log("too slow to tell whether informd rule retry made the copy")
	}
	d.AwaitDelivered()
	wantLetters(t, d, 0)
	d.Stop()
	wantOnce(t, d.Logged(), healthy...)
}

// The same, and a source of another rule watches namespaces: nobody has to ask.
func TestNamespaceThatASourceShows(t *testing.T) {
	t.Parallel()
	k, dir := harness.NewKube(t, cluster.Shared(t)), harness.ShortDir(t)
	late := k.Ns + "-late"
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(
		harness.Source("configmaps", harness.ConfigMaps+", labelSelector: copy=yes")+
			harness.Source("namespaces", "resource: v1/namespaces")+
			harness.Handler("log", "builtin: log")+
			harness.Rule("seen", `source: namespaces, where: object.metadata.name == "none", handler: log`)+
			harness.Rule("copies", strings.Replace(copies, "MADE", "made", 1))), "--state-dir", dir)
	d.AwaitReady()
	k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: o, labels: {copy: "yes"}}, ` +
		`data: {x: "0", to: "` + late + `"}}`)
	var next time.Time
	k.Eventually("the next attempt to be far", func() bool {
		next = nextAttempt(t, dir)
		return time.Until(next) > 5*time.Second
	})
	harness.CreateNamespace(t, k.Typed, late)
	k.HasCopies("made", []string{late}, "x", "0")
	if time.Now().After(next) {
		t.Log("too slow to tell what made the copy")
	}
	d.AwaitDelivered()
	d.Stop()
}

// One copy is refused for good, and another for now. informd makes the others. It tries what is
// refused for good once, and names it in a dead letter when everything else is done. A retry of the
// letter tries that one alone.
func TestHealthyTargetsOfADeadLetter(t *testing.T) {
	t.Parallel()
	k, dir := harness.NewKube(t, cluster.Shared(t)), harness.ShortDir(t)
	more := k.Namespaces(2)
	frozen, late, healthy := more[0], k.Ns+"-late", []string{k.Ns, more[1]}
	immutable := k.Create(`{apiVersion: v1, kind: ConfigMap, immutable: true, ` +
		`metadata: {namespace: ` + frozen + `, name: made}, data: {x: fixed}}`)
	d, _ := copied(t, k, dir, "made", frozen, k.Ns, late, more[1])
	k.HasCopies("made", healthy, "x", "0")
	d.Poll("another attempt", func() bool { return d.Actions("copies", "apply", "failed") >= 2 })
	wantLetters(t, d, 0)
	if n := d.Actions("copies", "apply", "rejected"); n != 1 {
		t.Errorf("the immutable copy was tried %d times", n)
	}

	harness.CreateNamespace(t, k.Typed, late)
	k.HasCopies("made", []string{late}, "x", "0")
	d.Poll("the dead letter", func() bool { return d.Metric("informd_dead_letters") == "1" })
	id, reason := onlyLetter(t, dir)
	if !strings.Contains(reason, frozen+"/made") {
		t.Errorf("the letter does not name %s: %s", frozen, reason)
	}
	for _, namespace := range append(healthy, late) {
		if strings.Contains(reason, namespace+"/made") {
			t.Errorf("the letter names %s: %s", namespace, reason)
		}
	}
	want := "leave the field as it is, or delete the object"
	if shown, _ := says(t, dir, "dead", "show", id); !strings.Contains(shown, want) {
		t.Errorf("no %q in\n%s", want, shown)
	}

	d.Poll("the log to have all that", func() bool {
		isLate := func(a harness.Acted) bool { return a.Namespace == late && a.Result == "created" }
		return slices.ContainsFunc(harness.Acts(d.Logged()), isLate)
	})
	wantOnce(t, d.Logged(), append(healthy, late)...)
	retry := func() {
		t.Helper()
		if out, code := says(t, dir, "dead", "retry", id); code != 0 {
			t.Fatalf("informd dead retry: exit code %d\n%s", code, out)
		}
	}
	retry()
	d.Poll("the immutable copy to be refused again", func() bool {
		return d.Actions("copies", "apply", "rejected") >= 2 &&
			d.Metric("informd_dead_letters") == "1"
	})
	k.Delete(immutable)
	retry()
	k.HasCopies("made", []string{frozen}, "x", "0")
	d.AwaitDelivered()
	wantLetters(t, d, 0)
	d.Stop()
}

// A webhook of the cluster refuses one copy, or cannot be called. With whatever code the API server
// passes that on, newer changes of the object do not wait for the next attempt at that copy.
func TestOneTargetThatAWebhookRefuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"deny-403", "deny-429", "deny-500", "down"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, dir := harness.NewKube(t, cluster.Shared(t)), harness.ShortDir(t)
			hook, _, denies := strings.Cut(name, "-")
			var server *httptest.Server
			if denies {
				server = denying(t)
			}
			refuses := k.Ns + "-" + hook // see askWebhook
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: refuses, Labels: map[string]string{"refuses": refuses},
			}}
			client := k.Typed.CoreV1()
			_, err := client.Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			askWebhook(t, k, hook, server)
			k.Eventually("the webhook to be asked", func() bool {
				probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
				dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
				_, err := client.ConfigMaps(refuses).Create(t.Context(), probe, dryRun)
				return err != nil
			})

			d, change := copied(t, k, dir, name, refuses, k.Ns)
			k.HasCopies(name, []string{k.Ns}, "x", "0")
			var next time.Time
			k.Eventually("the next attempt to be far", func() bool {
				next = nextAttempt(t, dir)
				return time.Until(next) > 10*time.Second
			})
			change("1")
			k.HasCopies(name, []string{k.Ns}, "x", "1")
			if time.Now().After(next) {
				t.Error("the change has waited for the next attempt at the other copy")
			}
			wantLetters(t, d, 0)
		})
	}
}

// wantLetters checks how many dead letters there are.
func wantLetters(t *testing.T, d *harness.Daemon, n int) {
	t.Helper()
	if letters := d.Metric("informd_dead_letters"); letters != fmt.Sprint(n) {
		t.Errorf("%s dead letters, want %d", letters, n)
	}
}

// onlyLetter returns the id of the only dead letter, and why it died.
func onlyLetter(t *testing.T, dir string) (id, reason string) {
	t.Helper()
	var list struct{ Items []struct{ ID, Reason string } }
	out, code := says(t, dir, "dead", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list.Items) != 1 {
		t.Fatalf("want one letter: %v, exit code %d\n%s", err, code, out)
	}
	return list.Items[0].ID, list.Items[0].Reason
}

// wantOnce checks that the rule copies has applied a copy in each of these namespaces, and none
// twice for the same event. What failed does not count.
func wantOnce(t *testing.T, log string, namespaces ...string) {
	t.Helper()
	type copy struct{ event, namespace string }
	applied, seen := make(map[copy]int), make(map[string]bool)
	for _, a := range harness.Acts(log) {
		if a.Result != "failed" && slices.Contains(namespaces, a.Namespace) {
			applied[copy{a.ID, a.Namespace}]++
			seen[a.Namespace] = true
		}
	}
	again := 0
	for at, n := range applied {
		if n == 1 {
			continue
		}
		if again++; again <= 3 {
			t.Errorf("the copy in %s was applied %d times for %s", at.namespace, n, at.event)
		}
	}
	if again > 3 {
		t.Errorf("%d of %d copies were applied more than once for one event", again, len(applied))
	}
	if len(seen) != len(namespaces) {
		t.Errorf("the log has applies in %v, want %v", seen, namespaces)
	}
}

// says returns what a command of informd prints about the daemon of a state directory, and its exit
// code.
func says(t *testing.T, dir string, args ...string) (string, int) {
	t.Helper()
	code, stdout, stderr := harness.Informd(t, append(args, "--state-dir", dir)...)
	return stdout + stderr, code
}

// nextAttempt returns when the rule copies acts again for the object o.
func nextAttempt(t *testing.T, dir string) time.Time {
	t.Helper()
	return nextAttemptOf(t, dir, "copies", "o")
}

// nextAttemptOf returns when a rule acts again for an object. It returns the zero time if informd
// does not wait to do so.
func nextAttemptOf(t *testing.T, dir, rule, name string) time.Time {
	t.Helper()
	out, code := says(t, dir, "explain", rule, name, "-o", "json")
	var answer struct{ Delivery struct{ Retry time.Time } }
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != 0 {
		t.Fatalf("informd explain: exit code %d, %v\n%s", code, err, out)
	}
	return answer.Delivery.Retry
}

// A rule has more targets for one object, or larger ones, than the bounds of one evaluation allow.
// It applies all of them, again with each change of the object, and deletes them with the object.
// It never holds all of them at once. Only in make soak, the object with many targets changes, too.
func TestManyTargets(t *testing.T) {
	t.Parallel()
	c := cluster.New(t) // rules of other tests act in all namespaces
	k, dir := harness.NewKube(t, c), harness.ShortDir(t)
	began := time.Now()
	namespaces := k.Namespaces(1100)
	t.Logf("the namespaces took %v", time.Since(began).Round(time.Millisecond))
	names := []string{"large", "small"} // of the objects, their copies, rules and sources
	changed, rounds := names[:1], 1
	if harness.Soak() {
		changed, rounds = names, 6
	}
	targets := map[string][]string{"large": namespaces[:45], "small": namespaces}

	rule := func(name string) string {
		return harness.Rule(name, `source: `+name+`, prune: true, actions: [
			{forEach: 'lookup("namespaces.`+name+`", "yes")', apply: {resource: v1/configmaps,
				object: {metadata: {namespace: "${item.metadata.name}", name: `+name+`},
					data: "${object.data}"}}}]`)
	}
	few := fmt.Sprintf(`int(last(split(object.metadata.name, "-"))) < %d`, len(targets["large"]))
	manifests := harness.WriteFile(t, "rules.yaml", k.Text(
		harness.Source("namespaces", `resource: v1/namespaces, labelSelector: of=NS, indexes: {
			small: '"yes"', large: '`+few+` ? "yes" : nil'}`)+
			harness.Source("small", harness.ConfigMaps+", labelSelector: copy=small")+
			harness.Source("large", harness.ConfigMaps+", labelSelector: copy=large")+
			rule("small")+rule("large")))
	// This daemon is without the race detector, which multiplies memory.
	d := harness.StartDaemon(t, exec.Command(harness.Binary, "run", "-f", manifests,
		"--kubeconfig", c.Kubeconfig(), "--state-dir", dir))
	d.AwaitReady()
	before, _ := harness.Memory(t, d.Cmd.Process.Pid)

	poll := func(what string, met func() bool) {
		t.Helper()
		d.PollFor(2*harness.Patience, what, func() bool {
			if letters := d.Metric("informd_dead_letters"); letters != "0" {
				list, _ := says(t, dir, "dead", "list", "-o", "wide")
				t.Fatalf("waiting for %s, there are dead letters:\n%s", what, list)
			}
			return met()
		})
	}
	await := func(name, x string) {
		t.Helper()
		last := slices.Max(targets[name]) // few lists of all copies are needed once this one has come
		poll("the last copy of "+name, func() bool {
			m, err := k.Typed.CoreV1().ConfigMaps(last).Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && m.Data["x"] == x
		})
		poll("all copies of "+name, func() bool {
			all := k.Copies(name)
			isMissing := func(namespace string) bool {
				return all[namespace] == nil || all[namespace].Data["x"] != x
			}
			return !slices.ContainsFunc(targets[name], isMissing)
		})
	}
	began = time.Now()
	sources := make(map[string]*unstructured.Unstructured)
	for name, size := range map[string]int{"large": 236 << 10, "small": 0} {
		sources[name] = k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: ` +
			name + `, labels: {copy: ` + name + `}}, data: {x: "0", pad: "` +
			strings.Repeat("x", size) + `"}}`)
	}
	for x := 0; x <= rounds; x++ {
		if x > 0 {
			began, names = time.Now(), changed
			for _, name := range names {
				k.Patch(sources[name], fmt.Sprintf(`data: {x: "%d"}`, x))
			}
		}
		for _, name := range names {
			await(name, fmt.Sprint(x))
			t.Logf("round %d: all %d copies of %s after %v",
				x, len(targets[name]), name, time.Since(began).Round(time.Millisecond))
		}
	}
	after, peak := harness.Memory(t, d.Cmd.Process.Pid)
	t.Logf("the daemon takes %s, at most %s, after %s before",
		harness.Mebibytes(after), harness.Mebibytes(peak), harness.Mebibytes(before))
	if most := int64(256 << 20); peak-before > most {
		t.Errorf("that is more than %s more", harness.Mebibytes(most))
	}

	began = time.Now()
	for _, name := range names {
		k.Delete(sources[name])
	}
	for _, name := range names {
		poll("the copies of "+name+" to be gone", func() bool { return len(k.Copies(name)) == 0 })
	}
	t.Logf("all copies are gone after %v", time.Since(began).Round(time.Millisecond))
	d.AwaitDelivered()
	d.Stop()
}

// informd is killed when it has made a third of a rule's many copies. After its start it makes the
// others, and does not begin anew.
func TestKilledAmongTargets(t *testing.T) {
	t.Parallel()
	n := 300
	if harness.Soak() {
		n = 600
	}
	k := harness.NewKube(t, cluster.Shared(t))
	gate := newGate(t, cluster.Shared(t).Kubeconfig())
	state := harness.NewStateDir(t, gate.kubeconfig, harness.ShortDir(t))
	manifests := k.Text(harness.Source("configmaps", harness.ConfigMaps+", labelSelector: copy=yes") +
		harness.Rule("copies", `source: configmaps, actions: [
			{forEach: 'split(object.data.to, ",")', apply: {resource: v1/configmaps, object: {
				metadata: {namespace: NS, name: "${item}", labels: {copied: "yes"}},
				data: {x: "${object.data.x}"}}}}]`))
	made := func() int {
		options := metav1.ListOptions{LabelSelector: "copied=yes"}
		list, err := k.Typed.CoreV1().ConfigMaps(k.Ns).List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	var applies atomic.Int64 // whose responses have come to the gate
	count := func(r *http.Request) int64 {
		if r.Method != http.MethodPatch {
			return 0
		}
		return applies.Add(1)
	}

	d := state.Settled(manifests)
	gate.close(func(r *http.Request) bool { return count(r) > int64(n/3) })
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("copy-%d", i)
	}
	k.Create(`{apiVersion: v1, kind: ConfigMap, ` +
		`metadata: {namespace: NS, name: o, labels: {copy: "yes"}}, ` +
		`data: {x: "0", to: "` + strings.Join(names, ",") + `"}}`)
	gate.awaitHeld(t, 1)
	d.Poll("what was done to be on disk", func() bool {
		return d.Metric("informd_state_unwritten_records") == "0"
	})
	d.Kill()
	there := made()
	if there < n/3 || there > n/2 {
		t.Fatalf("%d of %d copies were made", there, n)
	}

	applies.Store(0)
	gate.close(func(r *http.Request) bool { return count(r) < 0 })
	d = state.Run(manifests)
	k.Eventually("all copies", func() bool { return made() == n })
	d.AwaitDelivered()
	wantLetters(t, d, 0)
	again := int(applies.Load())
	t.Logf("%d copies were there; informd applied %d after its start", there, again)
	if most := n - there + n/6; again > most {
		t.Errorf("that is more than %d: it began anew", most)
	}
	d.Stop()
}
