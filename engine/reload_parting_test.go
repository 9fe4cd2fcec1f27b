package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/integration/bench/fleet"
)

// A rule that goes on in one informer learns what became of another one that it has left, also
// while a new rule is learning.
func TestReloadPartsBesideANewRule(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.server.Apply(configMaps, `{"metadata":{"namespace":"pay","name":"p"},"data":{"size":"9"}}`)
	both := strings.Replace(mapSource, "configmaps}", "configmaps, namespaces: [shop, pay]}", 1)
	one := strings.Replace(mapSource, "configmaps}", "configmaps, namespaces: [shop]}", 1)
	h := new(teller)
	e, stop := l.startWith(both+aRule("r", ""), h)
	defer stop()
	l.quiet(e)
	expect(t, "at first", h.since(), "r synced a →1", "r synced p →9")
	if _, err := l.reload(e, one+aRule("r", "")+aRule("new", ""), h); err != nil {
		t.Fatal(err)
	}
	expect(t, "told by the reload", l.awaitTold(h, 2), "new synced a →1", "r deleted p →9")
}

// An informer that begins once more, while a rule must still learn what became of its objects,
// keeps a record of its own.
func TestReloadBeginsAnInformerThatIsOwed(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("x", "2")
	h := new(teller)
	e, stop := l.startWith(mapSource+aRule("r", ""), h)
	defer func() { stop() }()
	l.quiet(e)
	h.since()
	l.server.Fail(forbid("labelSelector"))
	narrow := strings.Replace(mapSource, "v1/configmaps", "v1/configmaps, labelSelector: 'a=b'", 1) + aRule("r", "")
	if _, err := l.reload(e, narrow, h); err != nil {
		t.Fatal(err)
	}
	l.delete("x")
	after := narrow + "---\napiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: again}\n" +
		"spec: {resource: v1/configmaps}\n" + strings.ReplaceAll(aRule("other", ""), "source: maps", "source: again")
	if _, err := l.reload(e, after, h); err != nil {
		t.Fatal(err)
	}
	expect(t, "told by the second reload", l.awaitTold(h, 1), "other synced a →1")
	l.server.Fail(nil)
	expect(t, "once it may", l.awaitTold(h, 2), "r deleted a →1", "r deleted x →2")
	l.quiet(e)
	stop()
	l.delete("a")
	e, stop = l.startWith(after, h)
	expect(t, "after a restart", l.awaitTold(h, 1), "other deleted a →1")
	l.quiet(e)
	expect(t, "more", h.since())
}

// What a rule must still learn of an informer that it has left survives the next reload.
func TestReloadKeepsWhatIsOwed(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("x", "2")
	h := new(teller)
	e, stop := l.startWith(mapSource+aRule("r", ""), h)
	defer func() { stop() }()
	l.quiet(e)
	h.since()
	l.server.Fail(forbid("labelSelector"))
	narrow := strings.Replace(mapSource, "v1/configmaps", "v1/configmaps, labelSelector: 'a=b'", 1)
	if _, err := l.reload(e, narrow+aRule("r", ""), h); err != nil {
		t.Fatal(err)
	}
	l.delete("x")
	if _, err := l.reload(e, mapSource+aRule("r", ""), h); err != nil {
		t.Fatal(err)
	}
	expect(t, "back again", l.awaitTold(h, 2), "r deleted x →2", "r synced a →1")
	l.quiet(e)
	stop()
	l.delete("a")
	e, stop = l.startWith(mapSource+aRule("r", ""), h)
	expect(t, "after a restart", l.awaitTold(h, 1), "r deleted a →1")
	l.quiet(e)
	expect(t, "more", h.since())
}

// What a new rule has learned of a new informer is known after a restart.
func TestReloadWithANewInformerIsRecorded(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "1")
	h := new(teller)
	e, stop := l.startWith(secretSource+aRule("first", ""), h)
	defer func() { stop() }()
	l.quiet(e)
	after := mapSource + aRule("r", "")
	if _, err := l.reload(e, after, h); err != nil {
		t.Fatal(err)
	}
	expect(t, "told by the reload", l.awaitTold(h, 2), "r synced a →1", "r synced b →1")
	l.quiet(e)
	stop()
	l.delete("a")
	e, stop = l.startWith(after, h)
	expect(t, "after a restart", l.awaitTold(h, 1), "r deleted a →1")
	l.quiet(e)
	expect(t, "more", h.since())
}

// While informd finds what a rule has inside that leaves, the rule sees changes as always. What it
// had inside in the end is deleted for it, by the reload or by the next start.
func TestReloadThatFindsWhatARuleLeaves(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"another rule stays": aRule("all", ", payload: 1"), "none stays": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			l.catchUpTurn = 1 // one object at a time
			const objects = 400
			for n := range objects {
				l.put(fmt.Sprint("o", n), strconv.Itoa(n%2))
			}
			h := new(teller)
			where := `, where: object.data.size == "1"`
			narrow := strings.Replace(mapSource, "v1/configmaps", "v1/configmaps, labelSelector: 'a=b'", 1) + aRule("r", where)
			if last != "" {
				narrow += "---\napiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: again}\n" +
					"spec: {resource: v1/configmaps}\n" + strings.ReplaceAll(last, "source: maps", "source: again")
			}
			e, stop := l.startWith(mapSource+aRule("r", where)+last, h)
			l.quiet(e)
			inside := make(map[string]int)
			count := func() {
				for _, event := range h.since() {
					switch f := strings.Fields(event); {
					case f[0] != "r":
					case f[1] == "synced" || f[1] == "added":
						inside[f[2]]++
					case f[1] == "deleted":
						inside[f[2]]--
					}
				}
			}
			count()
			if len(inside) != objects/2 {
				t.Fatalf("%d objects inside at first", len(inside))
			}
			done := make(chan error)
			go func() {
				_, err := l.reload(e, narrow, h)
				done <- err
			}()
			var err error
			isOver, changes := false, 0
			for n := 0; !isOver; n = (n + 7) % objects {
				switch changes++; changes % 3 {
				case 0:
					l.delete(fmt.Sprint("o", n))
				default:
					l.put(fmt.Sprint("o", n), strconv.Itoa(changes%2))
				}
				select {
				case err = <-done:
					isOver = true
				case <-time.After(time.Millisecond):
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			l.quiet(e)
			stop()
			e, stop = l.startWith(narrow, h)
			l.quiet(e)
			stop()
			count()
			for name, n := range inside {
				if n != 0 {
					t.Errorf("%s: %d times more inside than deleted, after %d changes", name, n, changes)
				}
			}
		})
	}
}

// What was recorded of a rule's leave that was not carried out is dropped by the next start.
func TestALeaveThatIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	h := new(teller)
	before := mapSource + aRule("r", "") + aRule("all", "")
	after := mapSource + aRule("all", "") + strings.ReplaceAll("---\n"+strings.TrimPrefix(mapSource, oneHandler)+aRule("r", ""), "maps", "few")
	after = strings.Replace(after, "name: few}\nspec: {resource: v1/configfew}", "name: few}\nspec: {resource: v1/configmaps, namespaces: [pay]}", 1)
	e, stop := l.startWith(before, h)
	l.quiet(e)
	next, err := e.parts.Build(planOf(t, after), map[string]live.Handler{"record": h}, e.work())
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range next.Intakes {
		if old := in.Replaces(); old != nil {
			old.BeginLeave(in, next.Successor)
		}
	}
	e.work().Intakes.PrepareToLeave(t.Context())
	e.parts.Abandon(next)
	stop()
	informers := func() (n int) {
		store := l.open(slog.New(slog.DiscardHandler))
		ids, err := store.Informers()
		if err != nil {
			t.Error(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		store.Run(ended)
		return len(ids)
	}
	if n := informers(); n != 2 {
		t.Errorf("%d records of informers, want the rule's own beside the informer's", n)
	}
	for range 2 {
		e, stop = l.startWith(before, h)
		l.quiet(e)
		stop()
	}
	if n := informers(); n != 1 {
		t.Errorf("%d records of informers after a start, want 1", n)
	}
	expect(t, "told", h.since(), "all synced a →1", "r synced a →1")
}

// Objects change faster than they get turns for rules that leave an informer. The reload ends
// nevertheless.
func TestReloadThatRulesLeaveUnderLoad(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.catchUpTurn = 1 // one object at a time
	const objects, rules = 500, 50
	l.server.Synthesize(configMaps, "ConfigMap", true, fleet.NewConfigMaps(objects))
	h := new(teller)
	manifests := func(selection string) string {
		text := mapSource + aRule("all", ", events: [deleted]")
		for n := range rules {
			text += sourceAndRule(fmt.Sprint("r", n), selection, `, events: [deleted], where: object.metadata.name == "no"`)
		}
		return text
	}
	e, stop := l.startWith(manifests("v1/configmaps"), h)
	defer stop()
	l.quiet(e)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			l.server.Update(configMaps, n%objects)
			if n%5 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	done := make(chan error, 1)
	go func() {
		_, err := l.reload(e, manifests("v1/configmaps, labelSelector: 'a=b'"), h)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the reload does not end")
		cancel()
		<-done
	}
}
