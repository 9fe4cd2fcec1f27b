package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state/steps"
	"github.com/informd/informd/integration/apistub"
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

// BenchmarkDelta takes one change of a 3 KB object from the informer's callback to the lanes. Five
// rules select it, out of the given number.
func BenchmarkDelta(b *testing.B) {
	for _, rules := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("rules=%d", rules), func(b *testing.B) { benchmarkDelta(b, rules) })
	}
}

func benchmarkDelta(b *testing.B, rules int) {
	const matching = 5
	var manifests strings.Builder
	manifests.WriteString(oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods}
`)
	for i := range rules {
		app := 7 // the label of every pod here
		if i >= matching {
			app += i
		}
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
`, i, app)
	}
	marks, err := steps.Open(b.TempDir(), time.Now())
	if err != nil {
		b.Log(err)
	}
	defer marks.Close()
	e, informer, in := idleWith(b, manifests.String(), Options{Steps: marks})

	// Pods change in turn, so that no old state is decoded already. A lane holds at most one change
	// of each: they merge.
	type change struct {
		delta.Delta
		tree any
	}
	var changes []change
	for i := range 64 {
		name := fmt.Sprintf("web-%d", i)
		d := delta.Delta{Type: delta.Updated, Old: benchPod(b, name, "1", "n1"), Object: benchPod(b, name, "2", "n2")}
		changes = append(changes, change{d, d.Object.Decode(informer.View)})
	}
	b.SetBytes(int64(len(changes[0].Object.JSON())))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		in.Take(source.Step{Delta: changes[n%len(changes)].Delta, Tree: changes[n%len(changes)].tree})
		n++
	}
	for i, r := range e.Status().Rules {
		if i < matching != (r.Matches == uint64(n)) {
			b.Errorf("%d of %d changes matched rule %d", r.Matches, n, i)
		}
	}
}

// BenchmarkLookup is a change of a pod in a rule whose own where looks its node up. There are 1,000
// nodes of about 10 KB, packed as they are in the cache.
func BenchmarkLookup(b *testing.B) {
	const objects = 1000
	server := apistub.New(b)
	server.Serve(nodes, "Node", false)
	image := `{"names":["registry.example.com/some/image@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],"sizeBytes":123456789},`
	for i := range objects {
		server.Apply(nodes, fmt.Sprintf(`{"metadata":{"name":"node-%d","labels":{"topology.kubernetes.io/zone":"zone-%d"}},"status":{"images":[%s]}}`,
			i, i%3, strings.TrimSuffix(strings.Repeat(image, 64), ",")))
	}
	for _, keep := range []string{"whole", "needed"} {
		for _, what := range []string{"when", "payload", "neither"} {
			b.Run("keep="+keep+"/in="+what, func(b *testing.B) { benchmarkLookup(b, server, keep, what, objects) })
		}
	}
}

func benchmarkLookup(b *testing.B, server *apistub.Server, keep, what string, objects int) {
	const zone = `first(lookup("nodes.byName", object.spec.nodeName)).metadata.labels["topology.kubernetes.io/zone"]`
	rule := map[string]string{
		"when":    `when: '` + zone + ` == "nowhere"', payload: object.metadata.name`,
		"payload": `payload: '` + zone + `'`,
		"neither": `payload: object.spec.nodeName`,
	}[what]
	e := run(b, server, oneHandler+`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: nodes}
spec: {resource: v1/nodes, keep: `+keep+`, indexes: {byName: object.metadata.name}}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: zones}
spec: {source: pods, handler: record, `+rule+`}
`, map[string]live.Handler{"record": newRecorder()})
	view, _ := e.Source("nodes")
	for deadline := time.Now().Add(time.Minute); len(view.List("", nil)) < objects || e.work().Rules[0].IsHeld(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("nodes are missing")
		}
	}
	look := evaluate.NewScope(object.NewDecoder(e.work().Rules[0].Paths()), object.NewDecoder(new(object.Paths)))
	look.Enter(e.work().Rules[0].Preparer.Changes, time.Now())
	var changes []delta.Delta
	for i := range objects {
		changes = append(changes, delta.Delta{Type: delta.Added, Object: benchPod(b, "web", "1", fmt.Sprintf("node-%d", i))})
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		d := changes[n%objects]
		m, ok, err := e.work().Rules[0].Member(d, look)
		if ok {
			m, ok, err = e.work().Rules[0].Decide(m.Delta, look)
		}
		if err != nil || what == "payload" && (!ok || len(m.Payload) < len(`"zone-0"`)) {
			b.Fatal(ok, err)
		}
		look.Forget()
		n++
	}
}
