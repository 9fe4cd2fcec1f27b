package engine

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/integration/apistub"
)

var nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

const lookupSources = oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps, indexes: {byNode: object.data.size}}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: nodes}
spec: {resource: v1/nodes, keep: needed, indexes: {byName: object.metadata.name}}
`

const zone = `first(lookup("nodes.byName", object.data.size)).spec.zone`

// zones is a rule about maps that reads the zones of the nodes named by their sizes.
const zones = `, payload: [old.data.size, object.data.size, '` + zone + `']`

// full is a rule about nodes that reads the maps on them.
const full = `
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: full}
spec: {source: nodes, handler: record, payload: 'map(lookup("maps.byNode", object.metadata.name), .metadata.name)'}
`

func putNode(server *apistub.Server, name, zone string) {
	server.Apply(nodes, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"zone":%q,"other":"not kept"}}`, name, zone))
}

// newLooking returns a life with a node in each of two zones.
func newLooking(t *testing.T) *life {
	l := newLife(t)
	l.server.Serve(nodes, "Node", false)
	putNode(l.server, "1", "north")
	putNode(l.server, "2", "south")
	return l
}

// breakNodes makes requests for nodes fail like those to an API that does not answer, or succeed
// again.
func (l *life) breakNodes(broken bool) {
	if !broken {
		l.server.Fail(nil)
		return
	}
	l.server.Fail(func(r *http.Request) *metav1.Status {
		if !strings.Contains(r.URL.Path, "/nodes") {
			return nil
		}
		return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable}
	})
}

// until runs a daemon until the first source is ready, that many events have come, and rule zones
// reports that reason.
func (l *life) until(manifests string, h *teller, n int, reason string) []string {
	l.t.Helper()
	told, held := l.attempt(manifests, h, patience, func(e *Engine, told []string) bool {
		return e.Status().Sources[0].Ready && len(told) >= n && reasonOf(e.rule("zones")) == reason && !catchesUp(e)
	})
	if !held {
		l.t.Errorf("the condition never held; told %q", told)
	}
	return told
}

const waits = "waits for what it looks into: nodes"

func TestSourcesThatLookIntoEachOther(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	l.put("a", "1")
	l.put("b", "2")
	l.put("c", "9")
	l.expect(l.run(lookupSources+aRule("zones", zones)+full, new(teller), n(5)),
		`zones synced a [null,"1","north"]`, `zones synced b [null,"2","south"]`, `zones synced c [null,"9",null]`,
		`full synced 1 ["a"]`, `full synced 2 ["b"]`)
	l.put("a", "2")
	l.delete("b")
	l.expect(l.run(lookupSources+aRule("zones", zones)+full, new(teller), n(2)),
		`zones updated a ["1","2","south"]`, `zones deleted b [null,"2","south"]`)
}

// A rule waits for the sources that it looks into. Rules next to it do not.
func TestRuleWaitsForItsLookupSources(t *testing.T) {
	t.Parallel()
	l := newLooking(t)
	l.breakNodes(true)
	l.put("a", "1")
	h := new(teller)
	e, stop := l.start(lookupSources+aRule("zones", zones)+aRule("all", ""), h)
	wait := func(what string, cond func([]string) bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			h.mu.Lock()
			told := slices.Clone(h.told)
			h.mu.Unlock()
			if cond(told) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: told %q", what, told)
			}
		}
	}
	wait("the other rule", func(told []string) bool { return len(told) == 1 })
	l.put("b", "2")
	l.delete("a")
	wait("the other rule's changes", func(told []string) bool { return len(told) == 3 })
	status := e.Status()
	for _, r := range status.Rules {
		if want := map[string]string{"zones": waits}[r.Name]; r.Reason != want {
			t.Errorf("rule %s: %q, want %q", r.Name, r.Reason, want)
		}
	}
	l.breakNodes(false)
	wait("the rule", func(told []string) bool { return len(told) == 4 })
	l.put("b", "1")
	wait("what comes then", func(told []string) bool { return len(told) == 6 })
	l.expect(stop(), "all synced a →1", "all added b →2", "all deleted a →1", "all updated b 2→1",
		`zones synced b [null,"2","south"]`, `zones updated b ["2","1","north"]`)
}

// A source that is not served or forbidden is empty, and no rule waits for it.
func TestLookupSourceIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*apistub.Server)
		reason  string
	}{
		"not served": {func(*apistub.Server) {}, "finds nothing in what it looks into: nodes is not served"},
		"forbidden": {func(s *apistub.Server) {
			s.Serve(nodes, "Node", false)
			putNode(s, "1", "north")
			s.Forbid(nodes, true)
		}, "finds nothing in what it looks into: nodes is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			c.prepare(l.server)
			l.put("a", "1")
			l.expect(l.until(lookupSources+aRule("zones", zones), new(teller), 1, c.reason), `zones synced a [null,"1",null]`)
		})
	}
}

// Two sources may watch the same objects. A rule of one that looks into the other waits for the
// informer that feeds it.
func TestRuleThatLooksIntoItsOwnInformer(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	l.put("b", "1")
	rules := oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: same}
spec: {resource: v1/configmaps, indexes: {bySize: object.data.size}}
` + aRule("others", `, payload: 'map(lookup("same.bySize", object.data.size), .metadata.name)'`)
	l.expect(l.run(rules, new(teller), n(2)), `others synced a ["a","b"]`, `others synced b ["a","b"]`)
	l.put("b", "2")
	l.expect(l.run(rules, new(teller), n(1)), `others updated b ["b"]`)
}

func reasonOf(r *live.Rule) string {
	_, reason := r.Reason()
	return reason
}
