package prepare

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rule"
)

// all is a cache whose index has every object under any value.
type all struct{ bucket object.Bucket }

func (a all) ByIndex(_, _ string) (object.Bucket, error) { return a.bucket, nil }

// BenchmarkActions copies a ConfigMap into each of many namespaces: all at once, or piece by piece.
// peak-B is what the heap holds more at the end of a piece, or of all, than before.
func BenchmarkActions(b *testing.B) {
	c, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: []byte(`
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: maps}, spec: {resource: v1/configmaps}}
---
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: spaces}, spec: {resource: v1/namespaces, indexes: {all: '"yes"'}}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: a}
spec:
  source: maps
  actions:
  - forEach: lookup("spaces.all", "yes")
    if: item.metadata.name != object.metadata.namespace
    apply:
      resource: v1/configmaps
      object:
        metadata: {name: "${object.metadata.name}", namespace: "${item.metadata.name}"}
        data: ${object.data}
`)}})
	p, more := plan.Compile(c)
	if mistakes = append(mistakes, more...); len(mistakes) > 0 {
		b.Fatal(mistakes)
	}
	actions := p.Rules[0].Actions
	for _, size := range []struct{ elements, bytes int }{{1, 500}, {1000, 500}, {1100, 500}, {34, 236 << 10}, {45, 236 << 10}} {
		var spaces []*object.Object
		for i := range size.elements {
			o, err := object.FromJSON(fmt.Appendf(nil, `{"metadata":{"name":"n%04d","labels":{"a":"b"}},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}`, i))
			if err != nil {
				b.Fatal(err)
			}
			spaces = append(spaces, o)
		}
		o, err := object.FromJSON([]byte(`{"metadata":{"name":"tls","namespace":"from"},"data":{"key":"` + strings.Repeat("x", size.bytes) + `"}}`))
		if err != nil {
			b.Fatal(err)
		}
		change := delta.Delta{Type: delta.Added, Object: o}
		caches := &evaluate.Caches{
			Own:    evaluate.Reading{Paths: actions.Paths()},
			Others: map[string]evaluate.Reading{"spaces": {Cache: all{object.BucketOf(spaces)}, Paths: actions.Lookups()["spaces"]}},
		}
		ways := map[string]func(done func(held any)) (made int, err error){
			"at-once": func(done func(any)) (made int, err error) {
				steps, err := actions.Evaluate(change, nil, caches.Scope(time.Unix(0, 0)))
				for _, s := range steps {
					made += len(s.Actions)
				}
				done(steps)
				return made, err
			},
			"pieces": func(done func(any)) (made int, err error) {
				w := actions.Walker(change, nil, caches.Scope(time.Unix(0, 0)))
				err = w.Walk(nil, func(p rule.Piece) error {
					made += len(p.Actions)
					done(p)
					return nil
				})
				return made, err
			},
		}
		for _, how := range []string{"at-once", "pieces"} {
			b.Run(fmt.Sprintf("%s/elements=%d/bytes=%d", how, size.elements, size.bytes), func(b *testing.B) {
				if _, err := ways[how](func(any) {}); err != nil {
					b.Skip(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if made, err := ways[how](func(any) {}); err != nil || made != size.elements {
						b.Fatal(made, err)
					}
				}
				b.StopTimer()
				before, peak := heap(), uint64(0)
				_, _ = ways[how](func(held any) {
					peak = max(peak, heap())
					runtime.KeepAlive(held)
				})
				b.ReportMetric(float64(max(peak, before)-before), "peak-B")
			})
		}
	}
}

// heap returns how many bytes the heap holds.
func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
