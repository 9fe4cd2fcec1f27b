package expr

import (
	"sync"
	"testing"
)

// BenchmarkBool measures how a rule evaluates one change whose trees are already decoded.
func BenchmarkBool(b *testing.B) {
	for _, test := range []struct{ name, text string }{
		{"field", `object.status.phase == "Failed"`},
		{"any", `any(object.status.containerStatuses, .restartCount > 5)`},
		{"transition", `old.status.phase != object.status.phase and object.status.phase in ["Failed", "Unknown"]`},
		{"label", `object.metadata.labels["app.kubernetes.io/name"] startsWith "w"`},
		{"matches", `any(object.spec.containers, .image matches "^y:[0-9]+$")`},
		{"quantity", `any(object.spec.containers, quantity(.resources.requests.memory) > quantity("1Gi"))`},
		{"age", `now() - time(object.metadata.creationTimestamp) > duration("1h")`},
	} {
		b.Run(test.name, func(b *testing.B) {
			p := mustCompile(b, test.text, Options{Scope: When})
			env := testEnv(b)
			env.Object = mustObject(b, pod).Decode(p.Paths())
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Bool(env); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustCompile(b, `any(object.status.containerStatuses, .restartCount > 5)`, Options{Scope: When})
	}
}

// TestProgramsAreShared lets the race detector watch goroutines that share a program and a tree.
func TestProgramsAreShared(t *testing.T) {
	p := mustCompile(t, `[quantity("1.5Gi") + quantity("100000000000000000000"), quantity("0.5") == "500m", sum(object.spec.containers, quantity(.resources.requests.cpu)), object.status.phase in ["Failed"]]`, payload)
	now := mustObject(t, pod).Decode(p.Paths())
	env := testEnv(t)
	env.Object = now
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if _, err := p.Value(env); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A run in the pool must not keep values alive.
func TestRunsForgetTheirValues(t *testing.T) {
	r := new(run)
	r.slots, r.args = []any{1, 2}, append(make([]any, 0, 4), 3)
	r.release()
	for _, v := range append(r.slots[:cap(r.slots)], r.args[:cap(r.args)]...) {
		if v != nil {
			t.Errorf("the released run still holds %v", v)
		}
	}
}
