package rule

import (
	"fmt"
	"testing"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// BenchmarkSet measures how a Set finds the one rule of many that a change concerns.
func BenchmarkSet(b *testing.B) {
	old := mustObject(b, `{"metadata":{"namespace":"team-7","name":"7","labels":{"app":"7","app-7":"on"}},"status":{"phase":"7"}}`)
	now := mustObject(b, `{"metadata":{"namespace":"team-7","name":"7","labels":{"app":"7","app-7":"on","x":"y"}},"status":{"phase":"8"}}`)
	look := &decoded{trees: map[*object.Object]any{old: everything{}.Tree(old), now: everything{}.Tree(now)}}
	d := delta.Delta{Type: delta.Updated, Object: now, Old: old}
	for _, by := range []struct{ name, rule string }{
		{"namespace", `object.metadata.namespace == "team-%d"`},
		{"value", `object.metadata.labels.app == "%d"`},
		{"key", `object.metadata.labels["app-%d"] == "on"`},
		{"when", `| object.status.phase == "%d"`},
	} {
		for _, n := range []int{10, 1000} {
			b.Run(fmt.Sprintf("by=%s/rules=%d", by.name, n), func(b *testing.B) {
				s := NewSet(rulesOf(b, numbered(n, by.rule)...))
				rules := 0
				b.ReportAllocs()
				for b.Loop() {
					s.Each(d, look, func(int, *Rule) { rules++ })
				}
				if rules != b.N {
					b.Errorf("the Set found %d rules for %d changes", rules, b.N)
				}
			})
		}
	}
}
