package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// label puts a ConfigMap with labels into a namespace.
func (l *life) label(namespace, name, labels string) {
	l.server.Apply(configMaps, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"labels":{%s}},"data":{"size":"1"}}`, namespace, name, labels))
}

// selecting returns mapSource with more in its spec.
func selecting(more string) string {
	return strings.Replace(mapSource, "v1/configmaps}", "v1/configmaps, "+more+"}", 1)
}

func TestObjectsThatAChangedSelectorLeavesOutAreDeleted(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.label("shop", "a", `"app":"web"`)
	l.label("shop", "b", `"app":"web","tier":"front"`)
	l.label("shop", "c", `"tier":"front"`)
	l.label("shop", "d", `"app":"web"`)
	l.label("shop", "out", `"app":"web","out":"yes"`)
	rule := aRule("r", ", where: object.metadata.labels.out == nil")
	l.expect(l.run(selecting("labelSelector: app=web")+rule, new(teller), n(3)),
		"r synced a →1", "r synced b →1", "r synced d →1")
	l.delete("d")
	after := selecting("labelSelector: tier=front") + rule
	l.expect(l.run(after, new(teller), n(4)),
		"r deleted a →1", "r synced b →1", "r synced c →1", "r deleted d →1")
	l.expect(l.run(after, new(teller), n(0)))
	l.delete("c")
	l.expect(l.run(after, new(teller), n(1)), "r deleted c →1")
	l.expect(l.run(selecting("labelSelector: app=web")+rule, new(teller), n(2)),
		"r synced a →1", "r synced b →1")
}

func TestNothingIsDeletedBeforeTheNewSelectionIsListed(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.label("shop", "a", `"app":"web"`)
	l.label("shop", "b", `"app":"web","tier":"front"`)
	rule := aRule("r", "") + aRule("other", ", where: object.metadata.labels.tier == nil")
	l.run(selecting("labelSelector: app=web")+rule, new(teller), n(3))
	after := selecting("labelSelector: tier=front") + rule
	l.server.Fail(forbid("tier%3Dfront"))
	told, _ := l.attempt(after, new(teller), 300*time.Millisecond, n(1))
	l.expect(told)
	l.server.Fail(nil)
	l.expect(l.run(after, new(teller), n(3)), "r deleted a →1", "other deleted a →1", "r synced b →1")
}

func TestNamespacesThatASourceNoLongerNames(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.label("shop", "a", "")
	l.label("pay", "p", "")
	l.label("bar", "b", "")
	rule := aRule("r", "")
	l.run(selecting("namespaces: [shop, pay]")+rule, new(teller), n(2))
	l.expect(l.run(selecting("namespaces: [shop]")+rule, new(teller), n(1)), "r deleted p →1")
	l.expect(l.run(mapSource+rule, new(teller), n(3)),
		"r synced a →1", "r synced p →1", "r synced b →1")
	l.expect(l.run(selecting("namespaces: [bar, pay]")+rule, new(teller), n(3)),
		"r deleted a →1", "r synced b →1", "r synced p →1")
}

func TestASelectionThatAnotherRuleStillWatchesIsLeft(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.label("shop", "a", `"app":"web"`)
	l.label("shop", "b", `"tier":"front"`)
	other := "---\n" + strings.Replace(strings.TrimPrefix(mapSource, oneHandler), "{name: maps}", "{name: front}", 1)
	other = strings.Replace(other, "v1/configmaps}", "v1/configmaps, labelSelector: tier=front}", 1)
	stays := aRule("stays", "")
	moves := aRule("moves", "")
	manifests := selecting("labelSelector: app=web") + other + stays
	l.run(manifests+moves, new(teller), n(2))
	moved := strings.Replace(moves, "source: maps", "source: front", 1)
	l.expect(l.run(manifests+moved, new(teller), n(2)), "moves deleted a →1", "moves synced b →1")
	l.label("shop", "a", `"app":"web","more":"yes"`)
	l.expect(l.run(manifests+moved, new(teller), n(1)), "stays updated a 1→1")
}

func TestAnObjectOfTheSameNameInTheNewSelection(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.label("shop", "a", `"app":"web"`)
	rule := aRule("r", "")
	l.run(selecting("labelSelector: app=web")+rule, new(teller), n(1))
	l.delete("a")
	l.label("shop", "a", `"tier":"front"`)
	h := new(teller)
	l.run(selecting("labelSelector: tier=front")+rule, h, n(2))
	if got := strings.Join(h.told, ", "); got != "r deleted a →1, r synced a →1" {
		t.Errorf("told %s", got)
	}
}

func TestSecretsThatAChangedSelectorLeavesOut(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	put := func(name, labels string) {
		l.server.Apply(secrets, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"labels":{%s}},"data":{"size":"1"}}`, name, labels))
	}
	put("a", `"app":"web"`)
	put("b", `"app":"web","tier":"front"`)
	put("out", `"app":"web","out":"yes"`)
	source := func(selector string) string {
		return strings.Replace(secretSource, "v1/secrets", "v1/secrets, labelSelector: "+selector, 1) +
			aRule("r", ", where: object.metadata.labels.out == nil")
	}
	l.run(source("app=web"), new(teller), n(2))
	l.expect(l.run(source("tier=front"), new(teller), n(2)), "r deleted a →", "r synced b →1")
	l.expect(l.run(source("tier=front"), new(teller), n(0)))
}

func TestALeftSelectionWaitsForWhatTheRuleLooksInto(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	l.label("shop", "a", `"app":"web"`)
	l.label("shop", "b", `"tier":"front"`)
	before := strings.Replace(lookupSources, "v1/configmaps,", "v1/configmaps, labelSelector: app=web,", 1) + aRule("zones", zones)
	l.run(before, new(teller), n(1))
	after := strings.Replace(before, "app=web", "tier=front", 1)
	l.breakNodes(true)
	told, _ := l.attempt(after, new(teller), 300*time.Millisecond, n(1))
	l.expect(told)
	l.breakNodes(false)
	l.expect(l.run(after, new(teller), n(2)),
		`zones deleted a [null,"1","north"]`, `zones synced b [null,"1","north"]`)
	l.expect(l.run(after, new(teller), n(0)))
}

func TestADeletionOfALeftSelectionIsKept(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.label("shop", "a", `"app":"web"`)
	rule := aRule("r", "")
	l.run(selecting("labelSelector: app=web")+rule, new(teller), n(1))
	after := strings.Replace(selecting("labelSelector: tier=front"), "attempts: 2", "attempts: 0", 1) + rule
	refuses := &teller{answer: func(handler.Event) error { return errors.New("not now") }}
	l.run(after, refuses, n(1))
	told := l.run(after, new(teller), n(1))
	if len(told) != 1 || !strings.HasPrefix(told[0], "r deleted a →1 #") {
		t.Errorf("told %q", told)
	}
}
