package source

import (
	"fmt"
	"runtime"
	"testing"
	"time"

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
					if err := i.store().Update(benchMember(at)); err != nil {
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
func filled(b *testing.B, n int) *Informer {
	b.Helper()
	s, _ := newInformers(b, apistub.New(b).Config(), Options{})
	i := s.Informer(Selection{Resource: pods})
	if err := i.AddIndexers(map[string]Index{"all": everything}); err != nil {
		b.Fatal(err)
	}
	for at := range n {
		if err := i.store().Add(benchMember(at)); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	return i
}
