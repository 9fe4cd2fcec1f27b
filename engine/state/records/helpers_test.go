package records

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
)

// byText compares objects by their content.
var byText = cmp.Transformer("JSON", func(o *object.Object) string {
	if o == nil {
		return ""
	}
	return string(o.JSON())
})

func obj(t testing.TB, name string, version int, more string) *object.Object {
	t.Helper()
	o, err := object.FromJSON(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":%q,"uid":"uid-of-%s","resourceVersion":"%d","labels":{"tier":"web"}},"spec":{"text":%q}}`, name, name, version, more))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func key(name string) delta.Key { return delta.Key{Namespace: "shop", Name: name} }
