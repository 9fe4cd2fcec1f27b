package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// TestCountOverKills kills the daemon at random moments, while objects change. A rule without a
// count delivers all changes. Rules with a count deliver each third: one counts by object, one
// counts objects together, and one has to wait for another source after each start. No event is
// lost, and none is delivered that would not have been without the kills.
func TestCountOverKills(t *testing.T) {
	t.Parallel()
	rounds := 8
	if harness.Soak() {
		rounds = 300
	}
	random := rand.New(rand.NewPCG(harness.Seed(t), 0))
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	rule := func(name, more string) string {
		return harness.Rule(name, "source: configmaps, handler: log, delivery: every, events: [updated], where: object.data.size != nil, payload: object.data.size"+more)
	}
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) +
		harness.Source("accounts", "resource: v1/serviceaccounts, namespaces: [NS], indexes: {name: object.metadata.name}") +
		harness.Handler("log", "builtin: log") +
		rule("all", "") +
		rule("each", ", count: {times: 3, within: 1h}") +
		rule("together", ", count: {times: 3, within: 1h, by: object.data.team}") +
		rule("waits", `, when: 'len(lookup("accounts.name", "none")) == 0', count: {times: 3, within: 1h}`))
	objects := make([]*unstructured.Unstructured, 12)
	for i := range objects {
		objects[i] = k.Create(harness.ConfigMap(fmt.Sprintf("c-%02d", i), fmt.Sprintf("{size: '0', team: '%d'}", i%3)))
	}
	n := 0
	latest := make(map[string]string) // by object: the payload of its last change
	change := func() {
		n++
		o := objects[random.IntN(len(objects))]
		latest[o.GetName()] = fmt.Sprintf(`"%d"`, n)
		k.Patch(o, fmt.Sprintf("data: {size: '%d'}", n))
	}
	var told []handler.Event
	for range rounds {
		d := state.Run(rules)
		d.AwaitReady()
		for end := time.Now().Add(time.Duration(200+random.IntN(1500)) * time.Millisecond); time.Now().Before(end); {
			change()
			time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
		}
		d.Kill()
		told = append(told, d.Events...)
		for range random.IntN(10) { // and some while nobody watches
			change()
		}
	}
	d := state.Settled(rules)
	// A start that must list sees several changes of an object as one.
	d.Until("the last change of each object is told", func() bool {
		is := make(map[string]string)
		for _, ev := range append(told, d.Events...) {
			if ev.Rule == "all" {
				is[ev.Name] = string(ev.Payload)
			}
		}
		return maps.Equal(is, latest)
	})
	d.AwaitDelivered()
	if n := d.Metric("informd_dead_letters"); n != "0" {
		t.Errorf("%s dead letters:\n%s", n, state.Command("dead", "list", "-o", "json"))
	}
	d.Stop()
	told = append(told, d.Events...)
	byObject := make(map[string]int)
	byTeam := make(map[string]int)
	var third []string
	for _, id := range ids("all", told) { // in the order of their versions, per object
		o := strings.Split(id, "/")[1]
		if byObject[o]++; byObject[o]%3 == 0 {
			third = append(third, strings.Replace(id, "all/", "each/", 1))
		}
	}
	each := ids("each", told)
	slices.Sort(third)
	slices.Sort(each)
	if !slices.Equal(third, each) {
		t.Errorf("by object, these went on:\n%q\nwant\n%q", each, third)
	}
	objectsOf := func(ids []string) (objects []string) {
		for _, id := range ids {
			objects = append(objects, strings.Split(id, "/")[1])
		}
		slices.Sort(objects)
		return objects
	}
	if diff := cmp.Diff(objectsOf(third), objectsOf(ids("waits", told))); diff != "" {
		t.Errorf("of the rule that waits, these went on (-want +got)\n%s\nof all: %q", diff, ids("all", told))
	}
	for i, o := range objects {
		byTeam[fmt.Sprint(i%3)] += byObject[string(o.GetUID())]
	}
	together := 0
	for _, changes := range byTeam {
		together += changes / 3
	}
	if got := len(ids("together", told)); got != together {
		t.Errorf("by team, %d events went on, want %d", got, together)
	}
	if len(third) < n/6 {
		t.Errorf("of %d changes, only %d went on", n, len(third))
	}
	t.Logf("%d changes, %d went on by object, %d kills", n, len(third), rounds)
}

// ids returns the ids of a rule's events, each once, as they first came.
func ids(rule string, told []handler.Event) (ids []string) {
	seen := make(map[string]bool)
	for _, ev := range told {
		if ev.Rule == rule && !seen[ev.ID] {
			seen[ev.ID] = true
			ids = append(ids, ev.ID)
		}
	}
	return ids
}
