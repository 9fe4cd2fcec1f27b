package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// Why a rule did or did not fire, asked of a daemon in a cluster, with each way in which it can say
// so: explain, events and, after a change of when, resync.
func TestWhyARuleDidNotFire(t *testing.T) {
	t.Parallel()
	k, dir := harness.NewKube(t, cluster.Shared(t)), harness.ShortDir(t)
	manifests := func(when string) string {
		return k.Text(harness.Source("maps", "resource: v1/configmaps, namespaces: [NS], labelSelector: app=web") +
			harness.Source("hidden", "resource: v1/secrets, namespaces: [NS]") +
			harness.Handler("log", "builtin: log") +
			harness.Handler("fails", "builtin: exec, config: {command: [sh, -c, 'exit 3']}, retry: {backoff: 1m}") +
			harness.Handler("hangs", "builtin: exec, config: {command: [sleep, '600']}") +
			harness.Rule("big", `source: maps, handler: log, where: object.data.size == "2", when: '`+when+`'`) +
			harness.Rule("stuck", "source: maps, handler: hangs") +
			harness.Rule("broken", "source: maps, handler: fails") +
			harness.Rule("late", "source: maps, handler: log, for: 1h") +
			harness.Rule("weak", `source: hidden, handler: log, where: 'object.data.password == "aGk="', payload: object.metadata.name`) +
			harness.Rule("marks", `source: maps, events: [added, updated], actions: [{patch: {resource: v1/configmaps, name: '${object.metadata.name}', namespace: '${object.metadata.namespace}', merge: {data: {seen: "yes"}}}}]`))
	}
	kubeconfig := cluster.Shared(t).Kubeconfig()
	d := harness.RunInformd(t, kubeconfig, manifests(`object.data.color == "rde"`), "--state-dir", dir)
	d.AwaitReady()
	a := k.Create("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: NS, name: a, labels: {app: web}}\ndata: {size: '1', color: red}")
	k.Create("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: NS, name: other, labels: {app: db}}\ndata: {size: '2'}")
	k.Create("apiVersion: v1\nkind: Secret\nmetadata: {namespace: NS, name: s}\ndata: {password: aGk=}")

	informd := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := harness.Informd(t, append(args, "--state-dir", dir)...)
		if code != 0 {
			t.Fatalf("informd %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
		}
		return stdout
	}
	says := func(rule, object, text string) {
		t.Helper()
		var answer string
		k.Eventually("informd explain "+rule+" "+object+" to say "+text, func() bool {
			answer = informd("explain", rule, object)
			return strings.Contains(answer, text)
		})
	}
	says("big", k.Ns+"/a", `Not a member: where is false because object.data.size is "1".`)
	says("big", k.Ns+"/other", "The source maps has no such object. It selects objects with labels app=web alone.")
	says("big", "default/a", "The source maps does not select it: it selects the namespace "+k.Ns+" alone.")
	says("stuck", "a", "is with handler hangs, for ")
	says("broken", "a", "has failed 1 time, and is tried again in ")
	says("broken", "a", ": command: exit status 3.")
	says("late", "a", "Not a member yet: where has held for ")
	says("weak", "s", "It is a member since ")
	if answer := informd("explain", "weak", "s"); strings.Contains(answer, `→ "aGk="`) || !strings.Contains(answer, `object.data.password  → "***"`) {
		t.Errorf("of a Secret it says:\n%s", answer)
	}
	// the rule's own change may come before its request is answered, and then the answer is the last
	k.Eventually("informd explain marks a to tell of the rule's own change, or of the action", func() bool {
		answer := informd("explain", "marks", "a")
		return strings.Contains(answer, "was made by the rule itself, and is not delivered to it.") ||
			strings.Contains(answer, "The actions for its last event (added) were performed ")
	})
	says("marks", "a", "patch   v1/configmaps   "+k.Ns+"/a")
	k.Eventually("informd events to tell of the rule's own change", func() bool {
		return strings.Contains(informd("events", "--rule", "marks"), "the rule made this change itself")
	})
	var status struct {
		Rules []struct {
			Name           string
			Matches, Acted uint64
		}
	}
	if err := json.Unmarshal([]byte(informd("status", "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	for _, r := range status.Rules {
		if r.Name == "marks" && (r.Matches != 1 || r.Acted != 1) {
			t.Errorf("one change of another and one of its own are %d matches, and it acted for %d", r.Matches, r.Acted)
		}
	}

	k.Patch(a, `{"data":{"size":"2"}}`)
	says("big", "a", `delivered: when is false because object.data.color is "red".`)

	// A mended when changes nothing for the objects that are there.
	d.Stop()
	d = harness.RunInformd(t, kubeconfig, manifests(`object.data.color == "red"`), "--state-dir", dir)
	d.AwaitReady()
	says("big", "a", "informd rule resync big --state-dir "+dir+" has it see all members now.")
	watch := exec.Command(harness.Binary, "events", "--rule", "big", "-w", "-o", "json", "--state-dir", dir)
	followed := &lockedBuffer{}
	watch.Stdout = followed
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Process.Kill() })
	if got := informd("rule", "resync", "big"); got != "rule big: 1 object selected as synced\n" {
		t.Errorf("informd rule resync says %q", got)
	}
	d.Await("the event of the resync", func(events []handler.Event) bool {
		for _, e := range events {
			if e.Rule == "big" && e.Event == "synced" && e.Name == "a" {
				return true
			}
		}
		return false
	})
	says("big", "a", "Its last event (synced) was delivered ")
	d.Poll("informd events -w to show the answer", func() bool {
		return strings.Contains(followed.String(), `"what":"done"`)
	})
	if err := watch.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = watch.Wait() // a signal is how it ends
	var what []string
	for line := range strings.Lines(followed.String()) {
		var e struct{ Rule, Object, Event, What string }
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Rule != "big" || e.Object != k.Ns+"/a" || e.Event != "synced" {
			t.Errorf("informd events -w says %s", line)
		}
		what = append(what, e.What)
	}
	if got := strings.Join(what, " "); got != "selected sent done" {
		t.Errorf("informd events -w says %q", got)
	}
}
