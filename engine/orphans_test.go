package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/state"
)

// hasResumed reports whether a rule follows its informers, and its source has synced.
func hasResumed(e *Engine, r *live.Rule) bool {
	return r.OwnSource.View.HasSynced() && !r.Lane.Paused() && !r.Pruning.Rule.IsHeld()
}

// An orphan's source object that has come meanwhile is not deleted.
func TestOrphansOfObjectsThatCameMeanwhile(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	h := new(teller)
	e, stop := l.start(mapSource+aRule("r", `, prune: true, actions: [{if: object.data.size == "9", apply: {resource: v1/secrets, object: {metadata: {name: copy, namespace: shop}}}}]`), h)
	for deadline := time.Now().Add(patience); e.rule("r").Lane.Stats().InFlight > 0 || len(e.rule("r").OwnSource.View.List("", nil)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the source does not sync")
		}
	}
	r := e.rule("r")
	for !hasResumed(e, r) {
		time.Sleep(time.Millisecond)
	}
	gone := []delta.Key{{Namespace: "shop", Name: "a"}, {Namespace: "shop", Name: "b"}, {Namespace: "pay", Name: "c"}}
	if told := r.Pruning.Rule.Depart(t.Context(), gone); len(told) != 2 || told[gone[0]] {
		t.Errorf("told %v", told)
	}
	for r.Lane.Stats().Waiting+r.Lane.Stats().InFlight > 0 {
		time.Sleep(time.Millisecond)
	}
	l.expect(stop(), "r synced a →1", "r deleted b →", "r deleted c →")
}

const pruningRule = mapSource + `---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: r}
spec:
  source: maps
  prune: true
  where: object.data.size == "1"
  actions: [{apply: {resource: v1/secrets, object: {metadata: {name: "${object.metadata.name}-copy", namespace: shop}}}}]
`

// existence is a cluster that says of each object whether it exists.
type existence func() (bool, error)

func (e existence) Exists(context.Context, schema.GroupVersionResource, delta.Key) (bool, error) {
	return e()
}

func (existence) Applied(
	context.Context, action.By, schema.GroupVersionResource, string,
) ([]action.Applied, error) {
	return nil, nil
}

// While the prune of an orphan waits, another informd may create the source object and apply for it.
func TestOrphansOfObjectsThatComeWhileThePruneWaits(t *testing.T) {
	t.Parallel()
	e, _, _ := idle(t, pruningRule)
	p := e.rule("r").Preparer
	key := delta.Key{Namespace: "shop", Name: "a"}
	exists, failure := false, error(nil)
	p.Pruning.Rule.Cluster = existence(func() (bool, error) { return exists, failure })
	draft := delivery.Draft{Delta: p.Pruning.Rule.Orphaned(key)}
	isPrune := func(acts *delivery.Acts) bool { return len(acts.Actions()) == 1 && acts.OnlyPrunes }
	if got, err := p.Prepare(t.Context(), draft); err != nil || got.Nothing || !isPrune(got.Acts) {
		t.Errorf("gone: prepared %+v, %v, want a prune", got, err)
	}
	exists = true
	if got, err := p.Prepare(t.Context(), draft); err != nil || !got.Nothing {
		t.Errorf("it has come: prepared %+v, %v, want nothing", got, err)
	}
	exists, failure = false, errors.New("the API server is away")
	if _, err := p.Prepare(t.Context(), draft); !errors.Is(err, failure) {
		t.Errorf("nobody knows: %v", err)
	}
	seen := configMap(t, `{"metadata":{"namespace":"shop","name":"a","uid":"1","resourceVersion":"7"}}`)
	draft.Delta = delta.Delta{Type: delta.Deleted, Object: seen}
	if got, err := p.Prepare(t.Context(), draft); err != nil || !isPrune(got.Acts) {
		t.Errorf("the rule has seen the deletion: prepared %+v, %v, want a prune", got, err)
	}
}

// What the rule is about to prune is not reported as left, however long it takes.
func TestOrphansOfABusyRule(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.server.Fail(func(r *http.Request) *metav1.Status { // so that the rule is busy for ever
		if r.Method == http.MethodPatch || r.Method == http.MethodDelete {
			return &metav1.Status{Status: metav1.StatusFailure, Code: 503, Reason: metav1.StatusReasonServiceUnavailable}
		}
		return nil
	})
	l.put("a", "1")
	e, stop := l.start(pruningRule, new(teller))
	r := e.rule("r")
	await := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	key := delta.Key{Namespace: "shop", Name: "a"}
	await("the rule does not act", func() bool { return hasResumed(e, r) && r.Lane.Stats().Delayed == 1 })
	copied := map[string]any{"metadata": map[string]any{
		"namespace": "shop", "name": "a-copy",
		"labels":        map[string]any{"informd.dev/rule": "r", "informd.dev/source": r.Preparer.Mark(key)},
		"annotations":   map[string]any{"informd.dev/source-object": "v1/configmaps shop/a"},
		"managedFields": []any{map[string]any{"manager": "informd/r", "operation": "Apply"}},
	}}
	l.server.Apply(secrets, copied)
	l.put("a", "2")
	await("the rule does not lose the object", func() bool {
		is, ok := r.OwnSource.View.Get("shop", "a")
		return ok && !r.Preparer.Selects(is, time.Now())
	})
	found, err := r.Pruning.Orphans.Look(t.Context())
	if err != nil || len(found.Left) != 0 || !found.IsBusy || found.Pruning {
		t.Errorf("found %+v, %v, want that the rule is busy", found, err)
	}
	stop()
}

// The status says how far a long prune is.
func TestStatusOfALongPrune(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.server.Fail(func(r *http.Request) *metav1.Status { // nothing is ever deleted
		if r.Method == http.MethodPatch {
			return &metav1.Status{Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid}
		}
		return nil
	})
	key := delta.Key{Namespace: "shop", Name: "a"}
	e, stop := l.start(pruningRule, new(teller))
	for i := range 200 { // a prune that takes more than a moment
		l.server.Apply(secrets, map[string]any{"metadata": map[string]any{
			"namespace": "shop", "name": fmt.Sprint("copy-", i),
			"labels":        map[string]any{"informd.dev/rule": "r", "informd.dev/source": e.rule("r").Preparer.Mark(key)},
			"managedFields": []any{map[string]any{"manager": "informd/r", "operation": "Apply"}},
		}})
	}
	l.put("a", "1")
	for deadline := time.Now().Add(patience); len(e.rule("r").OwnSource.View.List("", nil)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the source does not sync")
		}
	}
	l.delete("a")
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		reason := e.Status().Rules[0].Reason
		if strings.HasPrefix(reason, "prunes: ") && strings.HasSuffix(reason, " of 200 objects") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the status says %q", reason)
		}
	}
	stop()
}

// An orphan's prune that waits when the program ends is known as one after the restart, so it is
// checked again. Of Secrets too, of which only the identity is kept.
func TestOrphansOverARestart(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{"config maps": "v1/configmaps", "secrets": "v1/secrets"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			manifests := strings.Replace(pruningRule, "{resource: v1/configmaps}", "{resource: "+source+"}", 1)
			key := delta.Key{Namespace: "shop", Name: "a"}
			e, stop := l.start(manifests, new(teller))
			r := e.rule("r")
			for deadline := time.Now().Add(patience); !hasResumed(e, r); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the source does not sync")
				}
			}
			if err := e.SetPaused("r", true); err != nil {
				t.Fatal(err)
			}
			if told := r.Pruning.Rule.Depart(t.Context(), []delta.Key{key}); !told[key] || !r.Lane.Holds(key) {
				t.Fatalf("told %v", told)
			}
			stop()
			e, stop = l.start(manifests, new(teller))
			defer stop()
			r = e.rule("r")
			for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
				found, err := e.store.Lane(r.ID, state.LaneOptions{}).Load(key, 0, 9, 1<<20)
				if err == nil && len(found) == 1 {
					if !r.Pruning.Rule.IsOrphaned(found[0].Value.Delta) {
						t.Errorf("found %+v", found[0].Value.Delta)
					}
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("found %v, %v", found, err)
				}
			}
		})
	}
}
