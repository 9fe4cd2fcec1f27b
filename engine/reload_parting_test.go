package engine

import (
	"strings"
	"testing"
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
