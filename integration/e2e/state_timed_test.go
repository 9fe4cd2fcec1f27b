package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// flapper is an object that begins and ceases to satisfy a where at random, and when it did.
type flapper struct {
	object *unstructured.Unstructured
	inside bool
	// turns are the times of the writes: informd cannot have seen a turn before.
	turns []time.Time
}

// TestTimeOverKills kills the daemon at random moments, while objects come in and leave, and others
// stay. For each object, a rule with for delivers an addition and then a deletion, in turn: none
// twice under another id, no deletion without an addition, none early. In the end its events match
// the objects.
func TestTimeOverKills(t *testing.T) {
	t.Parallel()
	const lasts = 2 * time.Second
	rounds := 8
	if harness.Soak() {
		rounds = 300
	}
	random := rand.New(rand.NewPCG(harness.Seed(t), 0))
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	flappers := make([]*flapper, 40)
	var work sync.WaitGroup
	for i := range flappers {
		work.Go(func() {
			o := k.Create(harness.ConfigMap(fmt.Sprintf("f-%02d", i), "{state: out}"))
			flappers[i] = &flapper{object: o}
		})
	}
	work.Wait()
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps) + harness.Handler("log", "builtin: log") +
		harness.Rule("lasting", "source: configmaps, handler: log, delivery: every, events: [added, deleted, synced], "+
			"where: object.data.state == 'in', for: 2s, payload: {at: now()}"))
	var told []handler.Event
	for range rounds {
		d := state.Run(rules)
		d.AwaitReady()
		for end := time.Now().Add(time.Duration(500+random.IntN(4000)) * time.Millisecond); time.Now().Before(end); {
			f := flappers[random.IntN(len(flappers))]
			if !f.inside || random.IntN(3) == 0 {
				f.turn(k)
			}
			time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		}
		d.Kill()
		told = append(told, d.Events...)
		for range random.IntN(10) { // and some while nobody watches
			flappers[random.IntN(len(flappers))].turn(k)
		}
	}
	d := state.Settled(rules)
	d.Until("every object that stays is told", func() bool {
		inside := make(map[string]bool)
		for _, ev := range append(told, d.Events...) {
			inside[ev.Name] = ev.Event != "deleted"
		}
		for _, f := range flappers {
			if inside[f.object.GetName()] != f.inside {
				return false
			}
		}
		return true
	})
	d.AwaitDelivered()
	d.Stop()
	told = append(told, d.Events...)
	added := 0
	for _, f := range flappers {
		added += f.check(t, lasts, told)
	}
	t.Logf("%d events, %d additions, %d kills", len(told), added, rounds)
	if added < len(flappers) {
		t.Errorf("only %d additions", added)
	}
}

// turn changes whether the object satisfies the where.
func (f *flapper) turn(k *harness.Kube) {
	f.turns = append(f.turns, time.Now())
	f.inside = !f.inside
	state := map[bool]string{false: "out", true: "in"}[f.inside]
	k.Patch(f.object, "data: {state: "+state+"}")
}

// check checks the events about the object, and returns how many of them are additions.
func (f *flapper) check(t *testing.T, lasts time.Duration, told []handler.Event) (added int) {
	t.Helper()
	ids, inside := make(map[string]bool), false
	for _, ev := range told {
		if ev.Name != f.object.GetName() || ids[ev.ID] { // after a kill, some come again
			continue
		}
		ids[ev.ID] = true
		switch {
		case ev.Event == "synced":
			t.Errorf("%s was synced, but the rule has always known the informer", ev.ID)
		case (ev.Event == "added") == inside:
			t.Errorf("%s was told, but inside was %t", ev.ID, inside)
		}
		inside = ev.Event == "added"
		if inside {
			added++
			f.wantLasting(t, lasts, ev)
		}
	}
	return added
}

// wantLasting checks that the object had satisfied the where long enough when it was added.
func (f *flapper) wantLasting(t *testing.T, lasts time.Duration, ev handler.Event) {
	t.Helper()
	var payload struct{ At time.Time }
	if err := json.Unmarshal(ev.Payload, &payload); err != nil {
		t.Fatal(err)
	}
	for i, since := range f.turns {
		if i%2 == 0 && payload.At.Sub(since) >= lasts && (i+1 == len(f.turns) || payload.At.Before(f.turns[i+1].Add(10*time.Second))) {
			return
		}
	}
	t.Errorf("%s was told at %s, but the turns were %s", ev.ID, payload.At, f.turns)
}

// TestScheduleOverKills kills the daemon at random moments around full minutes. A rule without a
// source has one event per minute, none under another id, and one action.
func TestScheduleOverKills(t *testing.T) {
	t.Parallel()
	minutes := 1
	if harness.Soak() {
		minutes = 30
	}
	random := rand.New(rand.NewPCG(harness.Seed(t), 0))
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	k.Create(harness.ConfigMap("a", "{state: out}"))
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	rules := k.Text(harness.Source("configmaps", harness.ConfigMaps+", indexes: {byName: object.metadata.name}") +
		harness.Handler("log", "builtin: log") +
		harness.Rule("minutely", "schedule: {cron: '* * * * *'}, delivery: every, handler: log, "+
			`payload: {maps: 'map(lookup("configmaps.byName", "a"), .metadata.name)'}, `+
			"actions: [{apply: {resource: v1/configmaps, object: {metadata: {name: 'by-${object.metadata.name}', namespace: NS}, data: {at: '${now()}'}}}}]"))
	var told []handler.Event
	d := state.Settled(rules)
	first := time.Now().Truncate(time.Minute) // it may have begun just then
	for last := first.Add(time.Duration(minutes) * time.Minute); time.Now().Before(last); d = state.Run(rules) {
		next := time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)) - time.Second
		time.Sleep(max(0, next) + time.Duration(random.IntN(2000))*time.Millisecond)
		d.Kill()
		told = append(told, d.Events...)
	}
	moments := func() (ids []string) {
		for _, ev := range append(told, d.Events...) {
			if !slices.Contains(ids, ev.ID) { // after a kill, some come again
				ids = append(ids, ev.ID)
			}
		}
		return ids
	}
	last := fmt.Sprintf("/%d", first.Add(time.Duration(minutes)*time.Minute).Unix())
	d.Until("every minute is told", func() bool {
		return slices.ContainsFunc(moments(), func(id string) bool { return strings.HasSuffix(id, last) })
	})
	d.AwaitDelivered()
	d.Stop()
	all := moments()
	if !strings.HasSuffix(all[0], fmt.Sprintf("/%d", first.Unix())) {
		first = first.Add(time.Minute)
	}
	for i, id := range all {
		at := first.Add(time.Duration(i) * time.Minute)
		if want := fmt.Sprintf("minutely/minutely/synced/1/%d", at.Unix()); id != want {
			t.Errorf("moment %d has the id %s, want %s", i, id, want)
		}
	}
	for _, ev := range append(told, d.Events...) {
		if string(ev.Payload) != `{"maps":["a"]}` {
			t.Errorf("%s has the payload %s", ev.ID, ev.Payload)
		}
	}
	if _, err := k.ConfigMap("by-minutely"); err != nil {
		t.Error(err)
	}
}
