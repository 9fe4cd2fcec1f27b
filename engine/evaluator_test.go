package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/timing"
	"github.com/informd/informd/integration/apistub"
)

// idle returns an engine that does not run, and the intake of its one informer.
func idle(t testing.TB, manifests string) (*Engine, *plan.Informer, *intake.Intake) {
	t.Helper()
	return idleWith(t, manifests, Options{})
}

func idleWith(t testing.TB, manifests string, o Options) (*Engine, *plan.Informer, *intake.Intake) {
	t.Helper()
	return idleOn(t, manifests, Cluster{Config: new(rest.Config)}, o)
}

func idleOn(t testing.TB, manifests string, on Cluster, o Options) (*Engine, *plan.Informer, *intake.Intake) {
	t.Helper()
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(manifests)}})
	p, more := plan.Compile(c)
	if mistakes = append(mistakes, more...); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	e, err := New(p, on, map[string]live.Handler{"record": newRecorder()}, o)
	if err != nil {
		t.Fatal(err)
	}
	return e, p.Informers[0], e.work().Intakes[0]
}

func configMap(t testing.TB, text string) *object.Object {
	t.Helper()
	o, err := object.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const fourRules = oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps, resync: 10m}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: all}
spec: {source: maps, handler: record}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: hourly}
spec: {source: maps, handler: record, resync: 1h, where: object.data.size == "1"}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: small}
spec: {source: maps, handler: record, where: object.data.size == "1"}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: large}
spec: {source: maps, handler: record, where: object.data.size == "2"}
`

func matches(e *Engine) map[string]uint64 {
	out := make(map[string]uint64)
	for _, r := range e.Status().Rules {
		out[r.Name] = r.Matches
	}
	return out
}

func TestResyncGoesToRulesWithItsInterval(t *testing.T) {
	t.Parallel()
	e, _, in := idle(t, fourRules)
	o := configMap(t, `{"metadata":{"namespace":"shop","name":"a"},"data":{"size":"1"}}`)
	in.Take(source.Step{Delta: delta.Delta{Type: delta.Added, Object: o}})
	in.Take(source.Step{Delta: delta.Delta{Type: delta.Synced, Object: o, Round: 600}, Round: timing.Every(10 * time.Minute)})
	want := map[string]uint64{"all": 2, "hourly": 1, "small": 2, "large": 0}
	if diff := cmp.Diff(want, matches(e)); diff != "" {
		t.Errorf("matches (-want +got)\n%s", diff)
	}
}

func TestDecodedObjectsAreNotDecodedAgain(t *testing.T) {
	t.Parallel()
	e, _, in := idle(t, fourRules)
	o := configMap(t, `{"metadata":{"namespace":"shop","name":"a"},"data":{"size":"1"}}`)
	other := map[string]any{"data": map[string]any{"size": "2"}} // nobody would yield this
	in.Take(source.Step{Delta: delta.Delta{Type: delta.Added, Object: o}, Tree: other})
	want := map[string]uint64{"all": 1, "hourly": 0, "small": 0, "large": 1}
	if diff := cmp.Diff(want, matches(e)); diff != "" {
		t.Errorf("matches (-want +got)\n%s", diff)
	}
}

// brokenCache simulates a fault in a source that an expression looks into.
type brokenCache struct{}

func (brokenCache) ByIndex(string, string) (object.Bucket, error) { panic("broken") }

func TestPanickingRuleHarmsNoOther(t *testing.T) {
	t.Parallel()
	e, _, in := idle(t, strings.Replace(fourRules, "resync: 10m}", "indexes: {size: object.data.size}}", 1)+`
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: panics}
spec: {source: maps, handler: record, when: 'len(byIndex("size", "1")) > 0'}
`)
	for _, r := range in.Rules {
		if r.Name == "panics" {
			r.Preparer.Changes.Own.Cache = brokenCache{}
		}
	}
	o := configMap(t, `{"metadata":{"namespace":"shop","name":"a"},"data":{"size":"1"}}`)
	for range 2 {
		in.Take(source.Step{Delta: delta.Delta{Type: delta.Added, Object: o}})
	}
	if got := e.rule("panics").Failures.Count(); got != 2 {
		t.Errorf("%d failures of the rule that panics, want 2", got)
	}
	if got := e.rule("small").Matches.Load(); got != 2 {
		t.Errorf("%d matches of another rule, want 2", got)
	}
}

// Rules of two sources that share an informer are evaluated in turn. Each must look into its own
// source.
func TestRuleSeesIndexesOfItsSource(t *testing.T) {
	t.Parallel()
	server := apistub.New(t)
	server.Serve(configMaps, "ConfigMap", true)
	server.Apply(configMaps, `{"metadata":{"namespace":"shop","name":"a"},"data":{"size":"1","color":"2"}}`)
	record := newRecorder()
	run(t, server, oneHandler+`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: sizes}
spec: {resource: v1/configmaps, indexes: {by: object.data.size}}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: colors}
spec: {resource: v1/configmaps, indexes: {by: object.data.color}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: size}
spec: {source: sizes, handler: record, payload: 'len(byIndex("by", "1"))'}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: color}
spec: {source: colors, handler: record, payload: 'len(byIndex("by", "1"))'}
`, map[string]live.Handler{"record": record})
	got := slices.Sorted(slices.Values(record.await(t, 2)))
	if want := []string{"color synced a 0", "size synced a 1"}; !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
}
