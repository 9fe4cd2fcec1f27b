package simulate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The same calls give the same events, byte for byte: whatever went through maps, goroutines of the
// state or delays that are random in the daemon.
func TestSameStepsSameEvents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(randomRun(t, seed), randomRun(t, seed)); diff != "" {
				t.Errorf("two runs differ: %s", diff)
			}
		})
	}
}

func randomRun(t *testing.T, seed uint64) (events []string) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 16))
	failing := func(e Event) Answer {
		if e.Event.Attempt < 3 && len(e.Event.Name)%3 == 0 {
			return Answer{Retry: "later"}
		}
		return Answer{}
	}
	rules := func(size string) []string {
		return []string{
			"kind: Source, metadata: {name: maps}, spec: {resource: v1/configmaps, indexes: {size: object.data.size}}",
			"kind: Source, metadata: {name: hidden}, spec: {resource: v1/secrets}", recorder,
			ruleOf("all", ", delivery: every"),
			ruleOf("some", fmt.Sprintf(`, where: object.data.size == %q`, size)),
			ruleOf("late", `, where: object.data.size != "1", for: 1m`),
			ruleOf("again", `, where: object.data.size == "3", resync: 5m, payload: 'len(byIndex("size", "3"))'`),
			fmt.Sprintf("kind: Rule, metadata: {name: secret}, spec: {source: hidden, handler: h, where: object.data.size != %q}", size),
		}
	}
	b := simulation(t, Options{Answer: failing, Stopped: seed%2 == 0}, rules("2")...)
	change := func() {
		source, name := "maps", fmt.Sprint("n", r.IntN(400))
		if r.IntN(4) == 0 {
			source = "hidden"
		}
		if _, ok := b.Get(source, "shop", name); ok && r.IntN(4) == 0 {
			b.must(b.Delete(source, "shop", name))
			return
		}
		b.must(b.Apply(source, fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":%q},"data":{"size":"%d"}}`, name, r.IntN(4))))
	}
	for range 800 {
		change()
	}
	if seed%2 == 0 {
		b.must(b.Run(Resumption{}))
	}
	for range 4 {
		for range 300 {
			change()
			if r.IntN(10) == 0 {
				b.must(b.Advance(time.Duration(r.IntN(20)) * time.Second))
			}
		}
		b.must(b.Stop())
		for range 100 {
			change()
		}
		b.must(b.Run(Resumption{
			HistoryLost: r.IntN(2) == 0, StateLost: r.IntN(4) == 0, Plan: compile(t, rules(fmt.Sprint(r.IntN(4)))...),
		}))
		b.must(b.Advance(10 * time.Minute))
	}
	for _, e := range b.Events() {
		text, err := json.Marshal(e)
		b.must(err)
		events = append(events, string(text))
	}
	return events
}
