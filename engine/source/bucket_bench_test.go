package source

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/integration/apistub"
)

// BenchmarkLookup measures one evaluation of a rule that looks into an index which has all objects
// under one value, after one of them has changed.
func BenchmarkLookup(b *testing.B) {
	for _, rule := range []struct{ name, text string }{
		{"len", `len(lookup("s.all", "yes")) > 3`},
		{"first", `first(lookup("s.all", "yes")).spec.v == 1`},
		{"any", `any(lookup("s.all", "yes"), .spec.v == 1)`},
		{"let", `let all = lookup("s.all", "yes"); len(all) > 3 and all[0].spec.v == 1`},
		{"some", `lookup("s.all", "yes")[:3] != nil`},
	} {
		for _, n := range []int{5_000, 20_000} {
			b.Run(fmt.Sprintf("%s/%d", rule.name, n), func(b *testing.B) {
				i := filled(b, n)
				view := NewSource("s", []*Informer{i}, map[string]string{"all": "all"})
				program, err := expr.Compile(rule.text, expr.Options{
					Scope: expr.When, Sources: map[string][]string{"s": {"all"}},
				})
				if err != nil {
					b.Fatal(err)
				}
				caches := &evaluate.Caches{Others: map[string]evaluate.Reading{
					"s": {Cache: view, Paths: program.Lookups()["s"]},
				}}
				failed := 0
				at := 0
				b.ReportAllocs()
				for b.Loop() {
					if err := i.cache.store().Update(benchMember(at)); err != nil {
						b.Fatal(err)
					}
					at = (at + 1) % n
					if _, err := program.Bool(&expr.Env{Cache: caches.Scope(time.Time{})}); err != nil {
						failed++
					}
				}
				b.ReportMetric(float64(failed)/float64(b.N), "failed/op")
			})
		}
	}
}

func benchMember(n int) *entry {
	o, err := object.FromJSON(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"o%06d"},"spec":{"v":1}}`, n))
	if err != nil {
		panic(err)
	}
	return &entry{Object: o}
}

// filled returns an informer that has n objects.
func filled(b testing.TB, n int) *Informer {
	b.Helper()
	s, _ := newInformers(b, apistub.New(b).Config(), Options{})
	i := s.Informer(Selection{Resource: pods})
	if err := i.AddIndexers(map[string]Index{"all": everything}); err != nil {
		b.Fatal(err)
	}
	for at := range n {
		if err := i.cache.store().Add(benchMember(at)); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	return i
}

// BenchmarkIndexMemory reports what an index takes per object: client-go's, and the sorted sets
// beside it. "all" has all objects under one value, "each" has each under its own.
func BenchmarkIndexMemory(b *testing.B) {
	const n = 100_000
	for _, kind := range []struct {
		name  string
		value func(n int) string
	}{
		{"all", func(int) string { return "yes" }},
		{"of100", func(n int) string { return fmt.Sprint(n / 100) }},
		{"each", func(n int) string { return fmt.Sprint(n) }},
	} {
		objects, values := make([]*object.Object, n), make([]string, n)
		for _, at := range rand.Perm(n) { // as client-go replaces the content of a store
			objects[at], values[at] = benchMember(at).Object, kind.value(at)
		}
		order := rand.Perm(n)
		for _, of := range []struct {
			name string
			fill func() any
		}{
			{"client-go", func() any {
				index := map[string]sets.Set[string]{}
				for _, at := range order {
					if index[values[at]] == nil {
						index[values[at]] = sets.Set[string]{}
					}
					index[values[at]].Insert(objects[at].Key())
				}
				return index
			}},
			{"sorted", func() any {
				index := ordered{}
				for _, at := range order {
					index.put(values[at], objects[at])
				}
				return index
			}},
		} {
			b.Run(kind.name+"/"+of.name, func(b *testing.B) {
				for b.Loop() {
					before := live()
					index := of.fill()
					b.ReportMetric(float64(live()-before)/n, "B/object")
					runtime.KeepAlive(index)
				}
				b.ReportMetric(float64(b.Elapsed())/float64(b.N)/n, "ns/object")
			})
		}
		runtime.KeepAlive(objects)
	}
}

func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
