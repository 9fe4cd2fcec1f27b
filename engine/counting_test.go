package engine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/plugins/handler"
)

const thrice = `, count: {times: 3, within: 1h}`

// byTeam counts by the first letter of a name.
const byTeam = `, count: {times: 3, within: 1h, by: 'object.metadata.name[:1]'}`

// matched waits until a rule has selected that many changes.
func (l *life) matched(e *Engine, rule string, n uint64) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		for _, r := range e.Status().Rules {
			if r.Name == rule && r.Matches == n {
				return
			}
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("rule %s has not matched %d changes: %+v", rule, n, e.Status().Rules)
		}
	}
}

func TestCountPerObject(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	l.put("a", "1")
	l.put("b", "1")
	e, stop := l.start(mapSource+aRule("all", "")+aRule("third", thrice), h)
	l.await(h, 2)
	for n := 2; n <= 7; n++ {
		l.put("a", fmt.Sprint(n))
		l.await(h, n+1+n/3)
	}
	l.delete("b")
	l.await(h, 11)
	if w := e.Status().Rules[1].Windows; w != 2 {
		t.Errorf("%d windows are open, want 2", w)
	}
	stop()
	l.expectAbout(h, "third", "updated a 2→3", "updated a 5→6")
}

func TestCountWithin(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	e, stop := l.start(mapSource+aRule("third", thrice), h)
	l.settled(e)
	l.put("a", "1")
	l.matched(e, "third", 1)
	l.pass(e, 40*time.Minute)
	l.put("a", "2")
	l.matched(e, "third", 2)
	l.pass(e, 40*time.Minute)
	l.put("a", "3")
	l.matched(e, "third", 3)
	l.put("a", "4")
	l.await(h, 1)
	stop()
	l.expectAbout(h, "third", "updated a 3→4")
}

// What has been counted survives a restart, also of Secrets and of parts of objects, and leaves the
// window while informd is down.
func TestCountOverRestarts(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"whole objects":    mapSource,
		"parts of objects": strings.Replace(mapSource, "configmaps}", "configmaps, keep: needed}", 1),
		"Secrets":          secretSource,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			put := l.put
			if source == secretSource {
				put = l.secret
			}
			rules := source + aRule("third", byTeam+`, payload: object.data.size`)
			put("a1", "1")
			put("b1", "1")
			l.expect(l.run(rules, new(teller), n(0)))
			put("a2", "2")
			l.expect(l.run(rules, new(teller), n(0)))
			put("a3", "3")
			l.expect(l.run(rules, new(teller), n(1)), `third added a3 "3"`)
			put("a4", "4")
			put("b2", "2")
			l.expect(l.run(rules, new(teller), n(0)))
			l.ahead.Add(int64(61 * time.Minute))
			put("b3", "3")
			l.expect(l.run(rules, new(teller), n(0)))
			put("b4", "4")
			put("b5", "5")
			l.expect(l.run(rules, new(teller), n(1)), `third added b5 "5"`)
		})
	}
}

// After a kill, what was counted since the state was written is counted again with the same result.
func TestCountOverAKill(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := mapSource + aRule("third", byTeam)
	l.put("a1", "1")
	l.expect(l.run(rules, new(teller), n(0)))
	written := l.dir + "-written"
	if err := os.CopyFS(written, os.DirFS(l.dir)); err != nil {
		t.Fatal(err)
	}
	l.put("a2", "2")
	l.expect(l.run(rules, new(teller), n(0)))
	l.put("a3", "3")
	h := new(teller)
	l.expect(l.run(rules, h, n(1)), "third added a3 →3")
	l.dir = written
	again := new(teller)
	l.expect(l.run(rules, again, n(1)), "third added a3 →3")
	if !slices.Equal(h.ids, again.ids) {
		t.Errorf("the ids are %q, then %q", h.ids, again.ids)
	}
}

// An event that is delivered again has counted, and does not count twice. Here a where changes, and
// changes back.
func TestRepeatsDoNotCount(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	one := mapSource + aRule("third", `, where: object.data.size == "1"`+thrice)
	two := mapSource + aRule("third", `, where: object.data.size == "2"`+thrice)
	l.put("a", "1")
	l.expect(l.run(one, new(teller), n(0))) // synced
	l.expect(l.run(two, new(teller), n(0))) // deleted
	l.expect(l.run(one, new(teller), n(0))) // synced, with the id from before
	l.put("a", "2")
	l.expect(l.run(one, new(teller), n(0))) // deleted: it leaves from the same state
	l.put("a", "1")
	l.expect(l.run(one, new(teller), n(1)), "third added a →1")
}

func TestChangedCountBeginsAnew(t *testing.T) {
	t.Parallel()
	const team = `object.metadata.name[:1]`
	for _, c := range []struct{ before, after string }{
		{"{times: 3, within: 1h, by: '" + team + "'}", "{times: 3, within: 2h, by: '" + team + "'}"},
		{"{times: 4, within: 1h, by: '" + team + "'}", "{times: 3, within: 1h, by: '" + team + "'}"},
		{"{times: 3, within: 1h, by: '" + team + "'}", "{times: 3, within: 1h, by: '" + team + " + \"x\"'}"},
		{"{times: 3, within: 1h, by: '" + team + "'}", "{times: 3, within: 1h, by: '" + team + "', at: time(object.metadata.creationTimestamp)}"},
		{"{times: 3, within: 1h, by: '" + team + "'}", ""},
	} {
		l := newLife(t)
		rule := func(count string) string {
			if count == "" {
				return mapSource + aRule("third", ", events: [updated]")
			}
			return mapSource + aRule("third", ", count: "+count)
		}
		l.put("a1", "1")
		l.put("a2", "1")
		l.expect(l.run(rule(c.before), new(teller), n(0)))
		l.put("a3", "1")
		if c.after == "" { // the count goes, and comes back
			l.expect(l.run(rule(c.after), new(teller), n(0)))
			c.after = c.before
		}
		l.expect(l.run(rule(c.after), new(teller), n(0)))
		l.put("a4", "1")
		l.put("a5", "1")
		told := l.run(rule(c.after), new(teller), n(0))
		if len(told) > 1 {
			t.Errorf("%s, then %s: told %q", c.before, c.after, told)
		}
		l.put("a6", "1")
		if len(told) == 0 {
			l.expect(l.run(rule(c.after), new(teller), n(1)), "third added a6 →1")
		}
	}
}

func TestARuleOfAnotherResourceHasCountedNothing(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a1", "1")
	l.put("a2", "1")
	l.expect(l.run(mapSource+aRule("third", byTeam), new(teller), n(0)))
	l.secret("a3", "1")
	l.secret("a4", "1")
	l.expect(l.run(secretSource+aRule("third", byTeam), new(teller), n(0)))
}

// Changes that wait for a source that the rule looks into count once they are decided, each once,
// whatever happens meanwhile.
func TestCountOfUndecidedChanges(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	counted := `, events: [added, synced], when: 'len(lookup("nodes.byName", object.data.size)) == 1', payload: object.data.size` + byTeam
	rules := lookupSources + aRule("zones", counted) + aRule("all", ", payload: object.data.size")
	l.put("a1", "1")
	l.put("x1", "1")
	l.run(rules, new(teller), n(2))
	l.breakNodes(true)
	l.put("a2", "7") // no such node
	l.put("a3", "1")
	l.put("x2", "1")
	l.until(rules, new(teller), 3, waits)
	l.put("a4", "2")
	l.until(rules, new(teller), 1, waits)
	l.breakNodes(false)
	h := new(teller)
	e, stop := l.start(rules, h)
	l.settled(e)
	l.await(h, 1)
	l.matched(e, "zones", 3)
	stop()
	told := h.about("zones")
	if len(told) != 1 || !strings.HasPrefix(told[0], "added a") {
		t.Errorf("told %q, want one of a", told)
	}
	l.put("x3", "1")
	l.expect(l.run(rules, new(teller), n(2)), `all added x3 "1"`, `zones added x3 "1"`)
	l.put("a5", "1")
	l.put("a6", "1")
	if told := of("zones", l.run(rules, new(teller), n(2))); len(told) > 0 {
		t.Errorf("told %q before the third", told)
	}
}

// A change whose payload fails has been decided, and counts once. It becomes a dead letter only if
// it would have gone on.
func TestCountOfAPayloadThatFails(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := mapSource + aRule("third", byTeam+`, payload: 'object.data.size + 1'`)
	for _, name := range []string{"a1", "a2", "a3", "a4"} {
		l.put(name, "1")
		l.run(rules, new(teller), func(e *Engine, _ []string) bool {
			return e.Status().Rules[0].Queue.Waiting == 0
		})
	}
	e, stop := l.start(rules, new(teller))
	l.settled(e)
	letters, err := e.Letters()
	stop()
	if err != nil || len(letters) != 1 || letters[0].Key.Name != "a3" {
		t.Errorf("the dead letters are %+v, %v; want one of a3", letters, err)
	}
}

// What went on while its delivery was undecided stays decided: a retry does not count again.
func TestARetryDoesNotCountAgain(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	rules := strings.Replace(lookupSources, "attempts: 2", "attempts: 0", 1) +
		aRule("zones", `, when: 'len(lookup("nodes.byName", "1")) == 1', payload: object.data.size`+byTeam)
	l.breakNodes(true)
	l.until(rules, new(teller), 0, waits)
	for _, name := range []string{"a1", "a2", "a3"} {
		l.put(name, "1")
	}
	l.until(rules, new(teller), 0, waits)
	l.breakNodes(false)
	busy := &teller{answer: func(handler.Event) error { return errors.New("not now") }}
	l.run(rules, busy, n(1))
	for range 2 {
		l.run(rules, busy, n(len(busy.told)+1))
	}
	for _, id := range busy.ids {
		if id != busy.ids[0] {
			t.Fatalf("told %q", busy.told)
		}
	}
	l.put("a4", "1")
	l.put("a5", "1")
	l.put("b1", "1")
	// an attempt that was under way when a run ended may come again with its number
	told, _, isRepeat := strings.Cut(strings.Join(l.run(rules, new(teller), n(1)), "\n"), " #")
	if event, _, _ := strings.Cut(busy.told[0], " #"); told != event || !isRepeat {
		t.Errorf("told %q, want a repeat of %q", told, event)
	}
}

func TestCountByAtThatFail(t *testing.T) {
	t.Parallel()
	l, h := newLife(t), new(teller)
	rules := mapSource + aRule("third", `, count: {times: 2, within: 1h, by: 'object.data.size + 1', at: time(object.data.size)}`)
	l.put("a", "1")
	l.put("b", "1")
	e, stop := l.start(rules, h)
	l.matched(e, "third", 2)
	l.put("b", "2")
	l.await(h, 1)
	r := e.Status().Rules[0]
	stop()
	l.expectAbout(h, "third", "updated b 1→2")
	if r.Errors != 3 || r.LastError == nil || !strings.Contains(r.LastError.Reason, "count.by: ") || !strings.Contains(r.LastError.Reason, "count.at: ") {
		t.Errorf("%d errors, the last: %+v", r.Errors, r.LastError)
	}
}

// At says when a change happened, however late it comes.
func TestCountAt(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := mapSource + aRule("third", `, events: [added, synced], count: {times: 3, within: 1h, by: object.metadata.namespace, at: time(object.data.size)}, payload: object.metadata.name`)
	at := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
	l.put("a", at(10*time.Hour))
	l.put("b", at(9*time.Hour+30*time.Minute))
	l.put("c", at(10*24*time.Hour))
	l.put("d", at(7*24*time.Hour))
	l.expect(l.run(rules, new(teller), n(0)))
	l.put("e", at(9*time.Hour+15*time.Minute))
	l.expect(l.run(rules, new(teller), n(1)), `third added e "e"`)
	l.put("f", "nil") // at fails: as of now
	l.put("g", at(9*time.Hour))
	l.put("h", at(-time.Hour)) // in the future: as of now
	l.expect(l.run(rules, new(teller), n(0)))
	l.put("i", at(time.Minute))
	l.expect(l.run(rules, new(teller), n(1)), `third added i "i"`)
}

func TestManyWindows(t *testing.T) {
	t.Parallel()
	e, _, in := idle(t, mapSource+aRule("third", thrice))
	r := e.work().Rules[0]
	o := configMap(t, `{"metadata":{"namespace":"shop","name":"a","uid":"u","resourceVersion":"1"}}`)
	d, now := delta.Delta{Type: delta.Added, Object: o}, e.parts.Clock.Now()
	for n := range count.MaxWindows + 2 {
		r.Tally.Add(d, count.Hit{Of: count.ValueOf(fmt.Sprint(n)), At: now}, now)
	}
	if r.Tally.Full() == nil || r.Tally.Full() != nil {
		t.Error("Full is to report once that windows had to go")
	}
	if open := e.Status().Rules[0].Windows; open != count.MaxWindows {
		t.Errorf("%d windows are open, want %d", open, count.MaxWindows)
	}
	in.Take(source.Step{Delta: d})
	last := e.Status().Rules[0].LastError
	if last == nil || !strings.Contains(last.Reason, "more than 100000") {
		t.Errorf("the last error is %+v", last)
	}
}

// What a rule has changed itself does not count. What it may have changed counts once it is clear
// that somebody else did.
func TestOwnChangesDoNotCount(t *testing.T) {
	t.Parallel()
	writes := holdWrites()
	e, _, in := idleOn(t, mapSource+`---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: acts}
spec: {source: maps, count: {times: 3, within: 1h}, actions: [{patch: {merge: {data: {size: "1"}}}}]}
`, writes.cluster(newLife(t)), Options{})
	r := e.work().Rules[0]
	if r.Own == nil {
		t.Fatal("the rule does not recognize its own changes")
	}
	at := func(version int) *object.Object {
		return configMap(t, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"a","uid":"u","resourceVersion":"%d"}}`, version))
	}
	change := func(to int) {
		in.Take(source.Step{Delta: delta.Delta{Type: delta.Updated, Object: at(to), Old: at(to - 1)}})
	}
	change(2)
	writes.begin(t, e, "acts", "2")("3")
	change(3) // its own
	change(4)
	if n := r.Lane.Stats().Waiting; n != 0 || r.Lane.OwnChanges() != 1 {
		t.Errorf("%d events go on, and %d changes are its own", n, r.Lane.OwnChanges())
	}
	end := writes.begin(t, e, "acts", "4")
	change(5) // perhaps its own
	if n := r.Lane.Stats().Waiting; n != 1 {
		t.Errorf("%d changes wait, want the one that may be its own", n)
	}
	end("") // it failed
	change(6)
	if n := r.Lane.Stats().Waiting; n != 2 {
		t.Errorf("%d events wait, want the third that counts besides", n)
	}
}

// The informers of a source count together.
func TestCountOverInformers(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	rules := strings.Replace(mapSource, "configmaps}", "configmaps, namespaces: [shop, web]}", 1) +
		aRule("third", `, count: {times: 3, within: 1h, by: '"all"'}, payload: object.metadata.namespace`)
	put := func(namespace, name string) {
		l.server.Apply(configMaps, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"data":{"size":"1"}}`, namespace, name))
	}
	put("shop", "a")
	l.expect(l.run(rules, new(teller), n(0)))
	put("web", "b")
	l.expect(l.run(rules, new(teller), n(0)))
	put("web", "c")
	l.expect(l.run(rules, new(teller), n(1)), `third added c "web"`)
}

// The deletion for which a rule prunes goes on, and does not count.
func TestPruneIsNotCounted(t *testing.T) {
	t.Parallel()
	e, _, in := idle(t, mapSource+`---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: acts}
spec: {source: maps, prune: true, count: {times: 3, within: 1h}, actions: [{apply: {resource: v1/secrets, object: {metadata: {name: a, namespace: b}}}}]}
`)
	o := configMap(t, `{"metadata":{"namespace":"shop","name":"a","uid":"u","resourceVersion":"1"}}`)
	in.Take(source.Step{Delta: delta.Delta{Type: delta.Added, Object: o}})
	in.Take(source.Step{Delta: delta.Delta{Type: delta.Deleted, Object: o, Old: o}})
	if n := e.work().Rules[0].Lane.Stats().Waiting; n != 1 {
		t.Errorf("%d events wait, want the deletion", n)
	}
}
