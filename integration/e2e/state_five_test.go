package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// TestRulesAboutTimeOverKills kills the daemon at random moments, also while it starts, with rules
// that have for, due, count, group and schedule. A rule without any of these delivers all changes,
// from which the test derives the events of the others: each under one id, none early.
func TestRulesAboutTimeOverKills(t *testing.T) {
	t.Parallel()
	rounds, longest := 8, 3*time.Second
	if harness.Soak() { // an hour
		rounds, longest = 1000, 6*time.Second
	}
	random := rand.New(rand.NewPCG(harness.Seed(t), 0))
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	rule := func(name, more string) string {
		return harness.Rule(name, "source: configmaps, handler: log, where: object.data.size != nil, "+more)
	}
	changes := "delivery: every, events: [updated], payload: object.data.size"
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
		rule("all", changes) +
		rule("teams", changes+", group: {by: object.data.team, wait: 300ms, every: 1s}") +
		rule("throttled", "events: [updated], payload: object.data.size, group: {every: 1s}") +
		rule("thirds", changes+", count: {times: 3, within: 1h}, group: {by: 1, wait: 200ms}") +
		harness.Rule("lasting", "source: configmaps, handler: log, delivery: every, events: [added, deleted, synced], "+
			`where: object.data.size endsWith "0", for: 1s, payload: {size: object.data.size, at: now()}`) +
		harness.Rule("due", "source: configmaps, handler: log, delivery: every, events: [added, deleted, synced], "+
			"due: time(object.data.until), payload: {until: time(object.data.until), at: now()}") +
		harness.Rule("minutes", `handler: log, schedule: {cron: "* * * * *"}`))
	soon := func() string { // and sometimes never
		if random.IntN(2) == 0 {
			return "2100-01-01T00:00:00Z"
		}
		return time.Now().Add(time.Duration(random.IntN(2000)) * time.Millisecond).UTC().Format(time.RFC3339Nano)
	}
	objects := make([]*unstructured.Unstructured, 12)
	for i := range objects {
		objects[i] = k.Create(harness.ConfigMap(fmt.Sprintf("c-%02d", i), fmt.Sprintf("{size: '1', team: '%d', until: '2100-01-01T00:00:00Z'}", i%3)))
	}
	n := 0
	latest := make(map[string]string) // by object: its size
	untils := make(map[string]string) // by object: when it is due
	change := func() {
		n++
		o := objects[random.IntN(len(objects))]
		size, until := fmt.Sprint(10*n+random.IntN(2)), soon()
		latest[o.GetName()], untils[o.GetName()] = size, until
		k.Patch(o, fmt.Sprintf("data: {size: '%s', until: '%s'}", size, until))
	}
	var told []handler.Event
	for range rounds {
		d := state.Run(rules)
		if random.IntN(4) > 0 {
			d.AwaitReady()
		}
		for end := time.Now().Add(100*time.Millisecond + time.Duration(random.Int64N(int64(longest)))); time.Now().Before(end); {
			change()
			time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		}
		d.Kill()
		told = append(told, d.Events...)
		for range random.IntN(10) { // and some while nobody watches
			change()
		}
	}
	d := state.Settled(rules)
	told = slices.Clone(told)
	d.Until("all is told", func() bool {
		return isAllTold(append(slices.Clone(told), d.Events...), latest, untils)
	})
	d.AwaitDelivered()
	d.Stop()
	told = append(told, d.Events...)

	all := ids("all", told)
	wantItems(t, "teams", all, told)
	wantItems(t, "thirds", thirds(all), told)
	wantTurns(t, "lasting", told)
	wantTurns(t, "due", told)
	for _, ev := range told {
		var payload struct{ Until, At time.Time }
		if ev.Rule == "due" && ev.Event != "deleted" {
			if err := json.Unmarshal(ev.Payload, &payload); err != nil {
				t.Fatal(err)
			}
			if payload.At.Before(payload.Until.Truncate(time.Millisecond)) {
				t.Errorf("%s was told at %s, and due at %s", ev.ID, payload.At, payload.Until)
			}
		}
	}
	t.Logf("%d changes, %d told; %d events of groups, %d of thirds, %d of what lasts, %d of what is due, %d minutes, %d kills",
		n, len(all), len(ids("teams", told)), len(ids("thirds", told)), len(ids("lasting", told)), len(ids("due", told)),
		len(ids("minutes", told)), rounds)
	if len(all) < n/2 || len(ids("lasting", told)) == 0 || len(ids("due", told)) == 0 {
		t.Error("hardly anything was told")
	}
}

// isAllTold reports whether the rules without a group have delivered the latest state of each
// object, and the others have nothing left to deliver.
func isAllTold(told []handler.Event, latest, untils map[string]string) bool {
	sizes, throttled := make(map[string]string), make(map[string]string)
	lasting, due := make(map[string]bool), make(map[string]bool)
	items := make(map[string]bool)
	for _, ev := range told {
		size := strings.Trim(string(ev.Payload), `"`)
		switch ev.Rule {
		case "all":
			sizes[ev.Name] = size
		case "throttled":
			throttled[ev.Name] = size
		case "lasting":
			lasting[ev.Name] = ev.Event != "deleted"
		case "due":
			due[ev.Name] = ev.Event != "deleted"
		}
		for _, item := range ev.Items {
			items[item.ID] = true
		}
	}
	if !maps.Equal(sizes, latest) || !maps.Equal(throttled, latest) {
		return false
	}
	for name, size := range latest {
		if lasting[name] != strings.HasSuffix(size, "0") || due[name] != !strings.HasPrefix(untils[name], "2100") {
			return false
		}
	}
	all := ids("all", told)
	isTold := func(rule string) func(id string) bool {
		return func(id string) bool { return !items[strings.Replace(id, "all/", rule+"/", 1)] }
	}
	return !slices.ContainsFunc(all, isTold("teams")) && !slices.ContainsFunc(thirds(all), isTold("thirds"))
}

// thirds returns each third id of each object.
func thirds(all []string) (third []string) {
	counts := make(map[string]int)
	for _, id := range all { // in the order of their versions, per object
		object := strings.Split(id, "/")[1]
		if counts[object]++; counts[object]%3 == 0 {
			third = append(third, id)
		}
	}
	return third
}

// wantItems checks that the events of a rule have these changes of the rule all as items: each in one
// event, which is that of its last item.
func wantItems(t *testing.T, rule string, want []string, told []handler.Event) {
	t.Helper()
	in := make(map[string]string) // the event of an item
	for _, ev := range told {
		if ev.Rule != rule {
			continue
		}
		if len(ev.Items) == 0 || ev.Items[len(ev.Items)-1].ID != ev.ID {
			t.Errorf("%s is not the last of its %d items", ev.ID, len(ev.Items))
		}
		for _, item := range ev.Items {
			if before, ok := in[item.ID]; ok && before != ev.ID {
				t.Errorf("%s is in %s and in %s", item.ID, before, ev.ID)
			}
			in[item.ID] = ev.ID
		}
	}
	got := slices.Sorted(maps.Keys(in))
	want = slices.Clone(want)
	for i := range want {
		want[i] = strings.Replace(want[i], "all/", rule+"/", 1)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		missing := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return slices.Contains(got, id) })
		surplus := slices.DeleteFunc(got, func(id string) bool { return slices.Contains(want, id) })
		t.Errorf("rule %s: these items are missing: %q; these are too many: %q", rule, missing, surplus)
	}
}

// wantTurns checks that a rule delivers, in turn, that an object becomes a member and that it stops
// being one. The object comes as synced if the first daemon was killed before the rule had seen all
// existing objects.
func wantTurns(t *testing.T, rule string, told []handler.Event) {
	t.Helper()
	seen, inside := make(map[string]bool), make(map[string]bool)
	for _, ev := range told {
		if ev.Rule != rule || seen[ev.ID] {
			continue
		}
		seen[ev.ID] = true
		if ev.Event != "synced" && (ev.Event == "added") == inside[ev.Name] {
			t.Errorf("%s was told, but inside was %t", ev.ID, inside[ev.Name])
			for _, of := range told {
				if of.Rule == rule && of.Name == ev.Name {
					t.Logf("told: %s attempt %d %s", of.ID, of.Attempt, of.Payload)
				}
			}
		}
		inside[ev.Name] = ev.Event != "deleted"
	}
}
