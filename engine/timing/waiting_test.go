package timing_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/informd/informd/engine/timing"
)

// TestWaitingIsLikeAMap compares with a map over random operations.
func TestWaitingIsLikeAMap(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		var w timing.Waiting
		want := make(map[string]int64)
		keys := 1 + random.IntN(300)
		for step := range 3000 {
			key := fmt.Sprintf("shop/web-%d", random.IntN(keys))
			switch random.IntN(5) {
			case 0, 1, 2:
				at := random.Int64N(100) - 50
				w.Put(key, at)
				want[key] = at
			case 3:
				w.Delete(key)
				delete(want, key)
			case 4:
				if first, _, ok := w.First(); ok {
					w.Delete(first)
					delete(want, first)
				}
			}
			check(t, &w, want, key)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		if got := maps.Collect(w.All()); !maps.Equal(got, want) {
			t.Fatalf("seed %d: All gives %v, want %v", seed, got, want)
		}
	}
}

func check(t *testing.T, w *timing.Waiting, want map[string]int64, key string) {
	t.Helper()
	if w.Len() != len(want) {
		t.Errorf("Len is %d, want %d", w.Len(), len(want))
	}
	at, ok := w.Get(key)
	if wantAt, wantOK := want[key]; at != wantAt || ok != wantOK {
		t.Errorf("Get(%s) gives %d, %t, want %d, %t", key, at, ok, wantAt, wantOK)
	}
	until := 0
	for other := range w.Until(10) {
		if until++; want[other] > 10 {
			t.Errorf("Until(10) has %s, at %d", other, want[other])
		}
	}
	for _, at := range want {
		if at <= 10 {
			until--
		}
	}
	if until != 0 {
		t.Errorf("Until(10) has %d objects too many", until)
	}
	first, at, ok := w.First()
	if ok != (len(want) > 0) || ok && want[first] != at {
		t.Errorf("First gives %s at %d, %t", first, at, ok)
	}
	for other, earlier := range want {
		if earlier < at {
			t.Errorf("First gives %d, but %s has %d", at, other, earlier)
		}
	}
}

// BenchmarkWaiting has a million objects wait, each once.
func BenchmarkWaiting(b *testing.B) {
	const n = 1_000_000
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%d/pod-%d", i%100, i)
	}
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		var w timing.Waiting
		for i, key := range keys {
			w.Put(key, int64(i*7919%n))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/object")
		for w.Len() > 0 {
			key, _, _ := w.First()
			w.Delete(key)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
}
