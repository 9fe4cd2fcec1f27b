package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// BenchmarkActions copies a Secret into each of 200 namespaces.
func BenchmarkActions(b *testing.B) {
	p, mistakes := compileOf(source("secrets", secrets) + source("spaces", spaces) + acting(`
  - forEach: lookup("spaces.all", "yes")
    if: item.metadata.name != object.metadata.namespace
    apply:
      resource: v1/secrets
      object:
        metadata: {name: "${object.metadata.name}", namespace: "${item.metadata.name}"}
        data: ${object.data}
`))
	if len(mistakes) > 0 {
		b.Fatal(mistakes)
	}
	look := looking{p.Rules[0], map[string][]*object.Object{}}
	for i := range 200 {
		o, err := object.FromJSON(fmt.Appendf(nil, `{"metadata":{"name":"n%d","labels":{"a":"b"}},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}`, i))
		if err != nil {
			b.Fatal(err)
		}
		look.objects["spaces"] = append(look.objects["spaces"], o)
	}
	change, err := object.FromJSON([]byte(`{"metadata":{"name":"tls","namespace":"n1"},"data":{"key":"` + strings.Repeat("x", 2000) + `"}}`))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if steps, err := p.Rules[0].Actions.Evaluate(delta.Delta{Type: delta.Added, Object: change}, nil, look); err != nil || len(steps) != 1 || len(steps[0].Actions) != 199 {
			b.Fatal(steps, err)
		}
	}
}
