package schema

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
)

// Definitions of an API server that refer to each other in a very long chain end nothing: a stack
// that overflows cannot be recovered from.
func TestEndlessChains(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(32 << 20)) // by default a gigabyte, for longer chains
	for _, form := range []string{
		`{"$ref": "#/components/schemas/%d"}`, `{"anyOf": [{"$ref": "#/components/schemas/%d"}]}`,
		`{"type": "object", "properties": {"a": {"$ref": "#/components/schemas/%d"}}}`,
	} {
		const last = 100_000
		var b bytes.Buffer
		b.WriteString(`{"paths": {"/api/v1/pods": {"get": {"x-kubernetes-action": "list",
			"x-kubernetes-group-version-kind": {"version": "v1", "kind": "Pod"}}}}, "components": {"schemas": {
			"pod": {"x-kubernetes-group-version-kind": [{"version": "v1", "kind": "Pod"}],
			"type": "object", "properties": {"b": {"type": "string"}, "a": {"$ref": "#/components/schemas/0"}}}`)
		for n := range last {
			fmt.Fprintf(&b, `, "%d": `+form, n, n+1)
		}
		b.WriteString("}}}")
		c := NewCatalog(nil)
		if err := c.AddOpenAPI(b.Bytes()); err != nil {
			t.Error(form, err)
		}
		for resource := range c.types {
			pod, _ := c.Of(resource)
			if names := pod.Fields(); strings.Join(names, " ") != "a b" {
				t.Errorf("%s: %v has the fields %v", form, resource, names)
			}
			in, _ := pod.Field("a")
			in.Kinds()
		}
		if _, err := Condense(b.Bytes()); err != nil {
			t.Error(form, err)
		}
	}
}
