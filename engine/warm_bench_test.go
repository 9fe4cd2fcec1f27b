package engine

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/informd/informd/engine/admin"
	"github.com/informd/informd/integration/bench/fleet"
)

// BenchmarkWarmStart starts an engine on the state of another one. Nothing has changed meanwhile.
// It ends when all sources are ready. ms-cold is the first start, without a state.
func BenchmarkWarmStart(b *testing.B) {
	for _, objects := range []int{20, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			l := newLife(b)
			l.server.Synthesize(configMaps, "ConfigMap", true, fleet.NewConfigMaps(objects))
			manifests := oneHandler + `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps, indexes: {byApp: object.metadata.labels.app}}
` + aRule("changed", `, events: [updated]`)
			start := func() (took time.Duration) {
				runtime.GC()
				began := time.Now()
				e, stop := l.startWith(manifests, new(teller))
				for slices.ContainsFunc(e.Status().Sources, func(s admin.SourceStatus) bool { return !s.Ready }) {
					time.Sleep(time.Millisecond)
				}
				took = time.Since(began)
				if n := len(e.work().Sources[0].View.List("", nil)); n != objects {
					b.Errorf("%d objects are in the cache, want %d", n, objects)
				}
				stop()
				return took
			}
			cold, warm := start(), time.Duration(0)
			for b.Loop() {
				warm += start()
			}
			b.ReportMetric(float64(cold.Milliseconds()), "ms-cold")
			b.ReportMetric(float64(warm.Milliseconds())/float64(b.N), "ms-warm")
		})
	}
}
