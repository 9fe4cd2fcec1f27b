package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// TestReloads reloads at random moments under load, and kills the daemon in between: rules come and
// go and change, also what they select, their handler and its process. The rule that stays delivers
// each change, in order and under one id; in the end every rule has delivered the current state.
func TestReloads(t *testing.T) {
	t.Parallel()
	rounds := 20
	if harness.Soak() {
		rounds = 1000
	}
	random := rand.New(rand.NewPCG(harness.Seed(t), 0))
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	file := filepath.Join(t.TempDir(), "rules.yaml")
	rule := func(name, more string) string {
		return harness.Rule(name, "source: configmaps, payload: {size: object.data.size, was: old.data.size}, "+more)
	}
	extras := func() (text string) {
		for n := range 3 {
			if random.IntN(2) == 0 {
				text += rule(fmt.Sprint("extra-", n), fmt.Sprintf("handler: log, where: int(object.data.size) %% %d == 0", 2+random.IntN(3)))
			}
		}
		if random.IntN(2) == 0 { // another informer
			text += harness.Source("more", harness.ConfigMaps+", labelSelector: informd.dev/none=here") +
				strings.Replace(rule("more", "handler: log"), "source: configmaps", "source: more", 1)
		}
		return text
	}
	write := func(more string) {
		text := k.Text(harness.Source("configmaps", harness.ConfigMaps) +
			harness.Handler("log", fmt.Sprintf("builtin: log, concurrency: %d", 1+random.IntN(4))) +
			rule("all", "delivery: every, handler: log, events: [updated]") +
			rule("changes", "delivery: every, handler: log, events: [updated], when: object.data.size != '"+fmt.Sprint(random.IntN(5))+"'") +
			more)
		half := text[:len(text)/2]
		if err := os.WriteFile(file, []byte(half), 0o600); err != nil {
			t.Fatal(err)
		}
		next := file + ".next"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	objects := make([]*unstructured.Unstructured, 12)
	latest := make(map[string]int) // by object
	for i := range objects {
		objects[i] = k.Create(harness.ConfigMap(fmt.Sprintf("c-%02d", i), "{size: '1'}"))
		latest[objects[i].GetName()] = 1
	}
	changes := 0
	changeOf := func(o *unstructured.Unstructured) {
		latest[o.GetName()]++
		changes++
		k.Patch(o, fmt.Sprintf("data: {size: '%d'}", latest[o.GetName()]))
	}
	change := func() { changeOf(objects[random.IntN(len(objects))]) }
	var told []handler.Event
	write(extras())
	d := state.Run(file)
	d.AwaitReady()
	for _, o := range objects { // the rules tell of no object that never changes
		changeOf(o)
	}
	reloads, kills := 0, 0
	for range rounds {
		for range random.IntN(8) {
			change()
			time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
		}
		write(extras())
		switch random.IntN(8) {
		case 0:
			d.Kill()
			kills++
			told = append(told, d.Events...)
			change()
			d = state.Run(file)
			d.AwaitLog("informd starts") // it has read the file
			if random.IntN(2) == 0 {
				d.AwaitReady()
			}
			continue
		case 1:
			if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		default: // it is refused while the daemon begins
			code, _, stderr := harness.Informd(t, "reload", "--state-dir", state.Dir)
			if code != 0 && !strings.Contains(stderr, "has not begun") && !strings.Contains(stderr, "no informd") && !strings.Contains(stderr, "not caught up") {
				t.Fatalf("informd reload: exit code %d\n%s", code, stderr)
			}
		}
		reloads++
	}
	write(rule("extra-9", "handler: log, where: int(object.data.size) % 2 == 0"))
	d.AwaitReady()
	d.Poll("the last reload", func() bool {
		code, _, _ := harness.Informd(t, "reload", "--state-dir", state.Dir)
		return code == 0
	})
	isLatest := func(rule string, all []handler.Event, of map[string]int) bool {
		last := make(map[string]int)
		for _, ev := range all {
			if ev.Rule == rule {
				last[ev.Name] = sizeOf(t, ev)
				if ev.Event == "deleted" {
					delete(last, ev.Name)
				}
			}
		}
		return maps.Equal(last, of)
	}
	even := maps.Clone(latest)
	maps.DeleteFunc(even, func(_ string, n int) bool { return n%2 == 1 })
	before := slices.Clone(told)
	d.Until("all is told", func() bool {
		now := append(slices.Clone(before), d.Events...)
		return isLatest("all", now, latest) && isLatest("extra-9", now, even)
	})
	d.AwaitDelivered()
	d.Stop()
	told = append(told, d.Events...)

	sizes := make(map[string][]int) // by object, as told to the rule that stays
	seen := make(map[string]bool)
	for _, ev := range told {
		if ev.Rule != "all" || seen[ev.ID] {
			continue
		}
		seen[ev.ID] = true
		sizes[ev.Name] = append(sizes[ev.Name], sizeOf(t, ev))
	}
	for name, is := range latest {
		if n := len(sizes[name]); n == 0 || !slices.IsSorted(sizes[name]) || sizes[name][n-1] != is {
			t.Errorf("%s has changed to %d; told %v", name, is, sizes[name])
		}
	}
	t.Logf("%d reloads, %d kills; %d changes, of which %d were told one by one", reloads, kills, changes, len(seen))
	if kills == 0 && len(seen) != changes {
		t.Errorf("%d of %d changes were told", len(seen), changes)
	}
}

func sizeOf(t *testing.T, ev handler.Event) int {
	t.Helper()
	_, text, _ := strings.Cut(string(ev.Payload), `"size":"`)
	text, _, _ = strings.Cut(text, `"`)
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s has %s", ev.ID, ev.Payload)
	}
	return n
}

// A reload takes up what has changed: rules, sources, handlers. With mistakes it changes nothing, and
// says so. --watch does it by itself.
func TestReloadCommand(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(k.Text(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base := harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
		harness.Rule("stays", "source: configmaps, handler: log")
	write(base)
	d := state.Run(file)
	d.AwaitReady()
	web := k.Create(harness.ConfigMap("web", "{size: '1'}"))
	k.Sees(d, "stays NS/web added")
	if out := state.Command("reload"); out != "nothing has changed\n" {
		t.Errorf("%q", out)
	}
	pid := d.Metric("informd_handler_restarts_total{handler=\"log\"}")

	more := base + harness.Rule("new", "source: configmaps, handler: log") + harness.Rule("elsewhere", "source: secrets, handler: second, payload: {}") +
		harness.Source("secrets", "resource: v1/secrets, namespaces: [NS]") + harness.Handler("second", "builtin: log")
	write(more)
	if out := state.Command("plan"); !strings.Contains(out, "informer begins, and lists: v1/secrets") ||
		!strings.HasSuffix(out, "rule new is new: 1 object comes in (synced)\nrule elsewhere is new: all objects that its source lists come in (synced)\nhandler second is started\n") {
		t.Errorf("informd plan:\n%s", out)
	}
	other := harness.WriteFile(t, "other.yaml", k.Text(base))
	if out := state.Command("plan", "-f", other); out != "nothing would change\n" {
		t.Errorf("informd plan -f:\n%s", out)
	}
	if out := state.Command("reload"); out != "rule new is new\nrule elsewhere is new\nhandler second is new\n" {
		t.Errorf("%q", out)
	}
	k.Sees(d, "new NS/web synced")
	d.AwaitReady() // or the new informer finds the Secret in its list
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: pass}}`)
	k.Sees(d, "elsewhere NS/pass added")
	if is := d.Metric("informd_handler_restarts_total{handler=\"log\"}"); is != pid {
		t.Errorf("the handler was restarted: %s, then %s", pid, is)
	}

	write(base + harness.Rule("new", "source: configmap, handler: log"))
	if code, _, stderr := harness.Informd(t, "plan", "--state-dir", state.Dir); code != 1 || !strings.Contains(stderr, "1 mistake in the manifests") {
		t.Errorf("informd plan: exit code %d: %s", code, stderr)
	}
	code, _, stderr := harness.Informd(t, "reload", "--state-dir", state.Dir)
	if code != 1 || !strings.Contains(stderr, `there is no Source named "configmap"`) || !strings.Contains(stderr, "nothing was changed") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if out := state.Command("status"); !strings.Contains(out, "the reload at") {
		t.Errorf("status does not say that the reload failed:\n%s", out)
	}
	if _, ready := d.Get("/readyz"); !strings.Contains(ready, "manifests: NOT reloaded") {
		t.Errorf("/readyz: %s", ready)
	}
	if got := d.Metric("informd_config_last_reload_successful"); got != "0" {
		t.Errorf("informd_config_last_reload_successful: %s", got)
	}
	k.Patch(web, "data: {size: '2'}")
	k.Sees(d, "new NS/web updated")

	write(strings.Replace(more, "handler: log", "handler: log, when: object.data.size != '0'", 1))
	untold := ": the change applies to each object when that changes next; to apply it to all now: informd rule resync stays --state-dir " + state.Dir + "\n"
	if out := state.Command("plan"); out != "rule stays changes"+untold {
		t.Errorf("informd plan:\n%s", out)
	}
	if out := state.Command("reload"); out != "rule stays changed\nrule stays"+untold {
		t.Errorf("%q", out)
	}
	write(more)
	if out := state.Command("reload"); out != "rule stays changed\nrule stays"+untold {
		t.Errorf("%q", out)
	}

	write(base)
	if out := state.Command("reload"); out != "rule new is gone\nrule elsewhere is gone\nhandler second is gone\n" {
		t.Errorf("%q", out)
	}
	if got := d.Metric("informd_config_last_reload_successful"); got != "1" {
		t.Errorf("informd_config_last_reload_successful: %s", got)
	}
	k.Patch(web, "data: {size: '3'}")
	d.Until("the rule that stays to see all", func() bool {
		return slices.Contains(k.Briefs(d.Events)[min(5, len(d.Events)):], "stays NS/web updated")
	})
	d.Stop()

	d = state.Run(file, "--watch")
	d.AwaitReady()
	write(base + harness.Rule("watched", "source: configmaps, handler: log"))
	k.Sees(d, "watched NS/web synced")
	d.Stop()
}

// A reload that makes a source with keep: needed keep more loses none of the changes that come
// meanwhile, and existing rules deliver nothing else.
func TestReloadKeepsMore(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(rules string) {
		text := k.Text(harness.Source("configmaps", harness.ConfigMaps+", keep: needed") +
			harness.Handler("log", "builtin: log") +
			harness.Rule("versions", "source: configmaps, handler: log, delivery: every, where: object.metadata.name != \"kube-root-ca.crt\", payload: object.metadata.resourceVersion") + rules)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := k.Create(harness.ConfigMap("c", "{size: '0'}"))
	write("")
	d := state.Run(file)
	d.AwaitReady()
	const changes = 150
	var changing sync.WaitGroup
	changing.Go(func() {
		for n := range changes {
			k.Patch(o, fmt.Sprintf("data: {size: '%d'}", n+1))
		}
	})
	for n := range 3 {
		write(harness.Rule("more", fmt.Sprintf("source: configmaps, handler: log, when: 'false', payload: object.data.x%d", n)))
		state.Command("reload")
	}
	changing.Wait()
	of := func() (events []handler.Event) {
		for _, ev := range d.Events {
			if ev.Rule == "versions" {
				events = append(events, ev)
			}
		}
		return events
	}
	d.Until("all changes", func() bool { return len(of()) > changes })
	d.AwaitDelivered()
	d.Stop()
	for n, ev := range of() {
		if want := map[bool]string{true: "synced", false: "updated"}[n == 0]; ev.Event != want {
			t.Errorf("event %d is %s, want %s", n, ev.Event, want)
		}
	}
	if n := len(of()); n != changes+1 {
		t.Errorf("%d events, want %d", n, changes+1)
	}
}
