package engine

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// benchPod is a pod of about 3 KB.
func benchPod(b *testing.B, name, version, node string) *object.Object {
	b.Helper()
	condition := `{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"},`
	env := `{"name":"SOME_VARIABLE_OF_THE_CONTAINER","value":"a value of a usual length"},`
	o, err := object.FromJSON(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":%q,"uid":%q,"resourceVersion":%q,`+
		`"labels":{"app":"app-7","tier":"web"}},"spec":{"nodeName":%q,"containers":[{"name":"web","image":"web:1","env":[%s]}]},`+
		`"status":{"phase":"Running","conditions":[%s]}}`,
		name, "uid-of-"+name, version, node, strings.TrimSuffix(strings.Repeat(env, 20), ","), strings.TrimSuffix(strings.Repeat(condition, 10), ",")))
	if err != nil {
		b.Fatal(err)
	}
	return o
}

// BenchmarkDelta is one change of a 3 KB object on its way from the informer's callback to the lane of the one rule, of a
// hundred, that selects it.
func BenchmarkDelta(b *testing.B) {
	var manifests strings.Builder
	manifests.WriteString(oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods}
`)
	for i := range 100 {
		fmt.Fprintf(&manifests, `
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: rule-%d}
spec:
  source: pods
  handler: record
  where: object.metadata.labels.app == "app-%d"
  when: object.spec.nodeName != old.spec.nodeName
  payload: {pod: object.metadata.name, node: object.spec.nodeName}
`, i, i)
	}
	c, mistakes := config.Parse([]config.File{{Path: "rules.yaml", Data: []byte(manifests.String())}})
	if len(mistakes) > 0 {
		b.Fatal(mistakes)
	}
	p, mistakes := plan.Compile(c)
	if len(mistakes) > 0 {
		b.Fatal(mistakes)
	}
	e, err := New(p, Cluster{Config: new(rest.Config)}, map[string]Handler{"record": newRecorder()}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	listeners := e.listeners(p.Informers[0])

	// Pods change in turn, so that nothing is decoded already. Of each the lane holds one change at most: they merge.
	var changes []delta.Delta
	for i := range 64 {
		name := fmt.Sprintf("web-%d", i)
		changes = append(changes, delta.Delta{Type: delta.Updated, Old: benchPod(b, name, "1", "n1"), Object: benchPod(b, name, "2", "n2")})
	}
	b.SetBytes(int64(len(changes[0].Object.JSON())))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for _, l := range listeners {
			l.OnDelta(changes[n%len(changes)], nil)
		}
		n++
	}
	if got := e.Status().Rules[7].Matches; got != uint64(n) {
		b.Errorf("%d of %d changes matched", got, n)
	}
}
