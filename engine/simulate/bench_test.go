package simulate

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkEvents measures what one event costs: an update of one object in a thousand, that
// one rule, or ten, hand to a handler.
func BenchmarkEvents(b *testing.B) {
	for _, rules := range []int{1, 10} {
		b.Run(fmt.Sprintf("rules=%d", rules), func(b *testing.B) {
			manifests := []string{sizes, recorder}
			for i := range rules {
				manifests = append(manifests, ruleOf(fmt.Sprintf("r%d", i), `, where: object.data.size != "0", payload: object.data.size`))
			}
			s := simulation(b, Options{}, manifests...)
			const objects = 1000
			version, told := 0, 0
			apply := func() {
				version++
				if err := s.Apply("maps", fmt.Appendf(nil,
					`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"n%d","uid":"u%d","resourceVersion":"%d","creationTimestamp":"2026-01-01T00:00:00Z"},"data":{"size":"%d"}}`,
					version%objects, version%objects, version, version)); err != nil {
					b.Fatal(err)
				}
				if err := s.Advance(time.Millisecond); err != nil {
					b.Fatal(err)
				}
				told += len(s.Events())
			}
			for range objects {
				apply()
			}
			told = 0
			b.ReportAllocs()
			for b.Loop() {
				apply()
			}
			if told != b.N*rules {
				b.Fatalf("%d events of %d changes", told, b.N)
			}
			b.ReportMetric(float64(told)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkRestart measures a restart with a thousand objects.
func BenchmarkRestart(b *testing.B) {
	s := simulation(b, Options{}, sizes, recorder, ruleOf("r", ""))
	for i := range 1000 {
		s.put(fmt.Sprint("n", i), "1")
	}
	s.must(s.Advance(0))
	for b.Loop() {
		s.must(s.Restart(Restart{}))
	}
}

// BenchmarkQuietYear measures a year in which an object waits, and nothing happens.
func BenchmarkQuietYear(b *testing.B) {
	s := simulation(b, Options{}, sizes, recorder, ruleOf("r", ", for: 8000h"))
	s.put("a", "1")
	for b.Loop() {
		s.must(s.Advance(365 * 24 * time.Hour))
	}
}
