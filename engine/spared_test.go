package engine

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
)

var gizmos = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gizmos"}

// sparing is a rule that applies nothing for the gizmos of the tests, and looks what it has to prune
// whenever it acts.
const sparing = oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: example.com/v1/gizmos}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: r}
spec:
  source: maps
  handler: record
  prune: true
  actions: [{if: object.data.size == "2", apply: {resource: v1/secrets, object: {metadata: {name: copy, namespace: shop}}}}]
`

// prunes counts how often a rule has looked for the objects that it applied for one object.
func (l *life) prunes() *atomic.Int32 {
	prunes := new(atomic.Int32)
	l.server.Fail(func(r *http.Request) *metav1.Status {
		if strings.Contains(r.URL.Query().Get("labelSelector"), "informd.dev/source=") {
			prunes.Add(1)
		}
		return nil
	})
	return prunes
}

// A rule learns at once that the objects of a withdrawn resource are gone, and prunes an hour
// later. Neither kill -9 nor a restart makes it sooner or later, and a reload does not, either.
func TestPruneForAWithdrawnResourceWaitsOverRestarts(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.server.Serve(gizmos, "Gizmo", true)
	l.server.Apply(gizmos, `{"metadata":{"namespace":"shop","name":"a"},"data":{"size":"1"}}`)
	prunes := l.prunes()
	key := delta.Key{Namespace: "shop", Name: "a"}
	var due time.Time
	told := l.run(sparing, new(teller), n(1))
	l.server.Withdraw(gizmos)
	told = append(told, l.run(sparing, new(teller), func(e *Engine, _ []string) bool {
		_, due = e.rule("r").Pruning.Spared.Count()
		return !due.IsZero()
	})...)
	slices.Sort(told)
	l.expect(told, "r deleted a →1", "r synced a →1")
	if wait := time.Until(due); wait < 59*time.Minute || wait > time.Hour {
		t.Errorf("it prunes after %v", wait)
	}
	before := prunes.Load()
	again := func(ahead time.Duration, until func(e *Engine) bool) {
		t.Helper()
		l.ahead.Store(int64(ahead))
		l.expect(l.run(sparing, new(teller), func(e *Engine, _ []string) bool { return until(e) }))
	}
	again(30*time.Minute, func(e *Engine) bool {
		if _, next := e.rule("r").Pruning.Spared.Count(); next.Unix() != due.Unix() {
			t.Errorf("it prunes at %v, and before the restart at %v", next, due)
		}
		return true
	})
	if prunes.Load() != before {
		t.Error("it prunes too early")
	}
	again(61*time.Minute, func(e *Engine) bool { return prunes.Load() > before })
	before = prunes.Load()
	again(120*time.Minute, func(e *Engine) bool { return !e.rule("r").Pruning.Spared.Has(key) })
	if prunes.Load() != before {
		t.Error("it prunes twice")
	}
}

// What a rule has spared is no orphan: when the resource is served again, the hour still counts.
func TestSparedIsNoOrphan(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.server.Serve(gizmos, "Gizmo", true)
	e, stop := l.start(sparing, new(teller))
	defer stop()
	r := e.rule("r")
	for deadline := time.Now().Add(patience); !hasResumed(e, r); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the source does not sync")
		}
	}
	key := delta.Key{Namespace: "shop", Name: "a"}
	l.server.Apply(secrets, map[string]any{"metadata": map[string]any{
		"namespace": "shop", "name": "copy",
		"labels":        map[string]any{"informd.dev/rule": "r", "informd.dev/source": r.Preparer.Mark(key)},
		"annotations":   map[string]any{"informd.dev/source-object": "example.com/v1/gizmos shop/a"},
		"managedFields": []any{map[string]any{"manager": "informd/r", "operation": "Apply"}},
	}})
	if found, err := r.Pruning.Orphans.Look(t.Context()); err != nil || len(found.Left) != 1 {
		t.Fatalf("found %v, %v, want the copy", found, err)
	}
	r.Pruning.Spared.Add(key, time.Hour)
	if found, err := r.Pruning.Orphans.Look(t.Context()); err != nil || len(found.Left) != 0 || found.IsBusy {
		t.Errorf("found %v, %v", found, err)
	}
}

// A rule that changes goes on sparing what it spared. One that no longer prunes spares nothing.
func TestSparedOverAReload(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.server.Serve(gizmos, "Gizmo", true)
	e, stop := l.start(sparing, new(teller))
	defer stop()
	key := delta.Key{Namespace: "shop", Name: "a"}
	for deadline := time.Now().Add(patience); !e.rule("r").Own.View.HasSynced(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the source does not sync")
		}
	}
	e.rule("r").Pruning.Spared.Add(key, time.Hour)
	reload := func(manifests string) {
		t.Helper()
		if _, err := l.reload(e, manifests, new(teller)); err != nil {
			t.Fatal(err)
		}
	}
	reload(strings.Replace(sparing, `== "2"`, `== "3"`, 1))
	if r := e.rule("r"); !r.Pruning.Spared.Has(key) {
		t.Error("the changed rule spares nothing")
	}
	reload(strings.Replace(sparing, "  prune: true\n", "", 1))
	if e.rule("r").Pruning != nil {
		t.Error("a rule that does not prune spares")
	}
	reload(sparing)
	if n, _ := e.rule("r").Pruning.Spared.Count(); n != 0 {
		t.Errorf("%d objects are spared", n)
	}
}
