package schema

import (
	"slices"
	"strings"
	"testing"

	k8s "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// crd makes a CustomResourceDefinition with these properties of spec, in YAML.
func crd(t *testing.T, spec string) Type {
	t.Helper()
	text := `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  group: example.com
  names: {plural: things}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          metadata: {type: object}
          spec:
` + indent(spec, "            ")
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	like := NewCatalog(nil)
	if err := like.AddOpenAPI([]byte(`{"components": {"schemas": {"` + metadata + `":
		{"type": "object", "properties": {"name": {"type": "string"}}}}}}`)); err != nil {
		t.Fatal(err)
	}
	c := NewCatalog(like)
	if err := c.AddDefinition(asJSON); err != nil {
		t.Fatal(err)
	}
	of, ok := c.Of(k8s.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"})
	if !ok {
		t.Fatal("the catalog lacks things")
	}
	return of
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by)
}

func TestWhatAFieldCanBe(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why, spec, path string
		closed          bool // there can be no such field
		kinds           Kind
	}{
		{"a property", "type: object\nproperties: {a: {type: string}}", "spec.a", false, String},
		{"no property", "type: object\nproperties: {a: {type: string}}", "spec.b", true, 0},
		{"an object without properties may hold anything", "type: object", "spec.b", false, 0},
		{"no schema", "{}", "spec.b", false, 0},
		{"unknown fields are kept",
			"type: object\nx-kubernetes-preserve-unknown-fields: true\nproperties: {a: {type: string}}",
			"spec.b", false, 0},
		{"pruning goes on below",
			"x-kubernetes-preserve-unknown-fields: true\ntype: object\n" +
				"properties: {a: {type: object, properties: {b: {type: string}}}}", "spec.a.c", true, 0},
		{"a map", "type: object\nadditionalProperties: {type: integer}", "spec.b", false, Number},
		{"a map of anything", "type: object\nadditionalProperties: true", "spec.b", false, 0},
		{"properties and others",
			"type: object\nproperties: {a: {type: string}}\nadditionalProperties: {type: boolean}",
			"spec.b", false, Bool},
		{"int or string",
			"type: object\nproperties: {a: {x-kubernetes-int-or-string: true, " +
				"anyOf: [{type: integer}, {type: string}]}}", "spec.a", false, Number | String},
		{"one of two", "oneOf: [{type: object, properties: {a: {type: string}}}, " +
			"{type: object, properties: {b: {type: integer}}}]", "spec.b", false, Number},
		{"neither of two", "oneOf: [{type: object, properties: {a: {type: string}}}, " +
			"{type: object, properties: {b: {type: integer}}}]", "spec.c", true, 0},
		{"one of two, which is open", "anyOf: [{type: object, properties: {a: {type: string}}}, {}]",
			"spec.c", false, 0},
		{"beside a type, lists of schemas add no field",
			"type: object\nproperties: {a: {type: string}}\nanyOf: [{required: [a]}]", "spec.c", true, 0},
		{"all of several is not understood",
			"allOf: [{type: object, properties: {a: {type: string}}}, {required: [a]}]",
			"spec.c", false, 0},
		{"a reference that leads nowhere", `$ref: "#/definitions/Thing"`, "spec.c", false, 0},
		{"a type that is not understood", "type: thing\nproperties: {a: {type: string}}",
			"spec.c", false, 0},
		{"a string has no fields", "type: string", "spec.c", true, 0},
		{"a whole object within",
			"type: object\nx-kubernetes-embedded-resource: true\nproperties: {a: {type: string}}",
			"spec.metadata.name", false, String},
		{"metadata is that of all objects", "{}", "metadata.name", false, String},
		{"metadata is closed", "{}", "metadata.nam", true, 0},
		{"apiVersion and kind are always there", "{}", "kind", false, String},
		{"nothing is beside spec", "{}", "status", true, 0},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			of := crd(t, test.spec)
			ok := true
			for name := range strings.SplitSeq(test.path, ".") {
				if !ok {
					t.Fatalf("%s: there is nothing around it", test.path)
				}
				of, ok = of.Field(name)
			}
			if ok == test.closed || of.Kinds() != test.kinds {
				t.Errorf("%s: there can be one: %v, of kinds %b; want %v, %b",
					test.path, ok, of.Kinds(), !test.closed, test.kinds)
			}
		})
	}
}

// A definition may be part of itself, as the schema of a schema is.
func TestRecursion(t *testing.T) {
	t.Parallel()
	c := NewCatalog(nil)
	err := c.AddOpenAPI([]byte(`{
		"paths": {"/apis/x/v1/trees": {"get": {"x-kubernetes-action": "list",
			"x-kubernetes-group-version-kind": {"group": "x", "version": "v1", "kind": "Tree"}}}},
		"components": {"schemas": {"Tree": {"type": "object",
			"x-kubernetes-group-version-kind": [{"group": "x", "version": "v1", "kind": "Tree"}],
			"properties": {"left": {"allOf": [{"$ref": "#/components/schemas/Tree"}]},
				"loop": {"$ref": "#/components/schemas/Loop"}}},
			"Loop": {"$ref": "#/components/schemas/Loop"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	of, _ := c.Of(k8s.GroupVersionResource{Group: "x", Version: "v1", Resource: "trees"})
	for range 100 {
		var ok bool
		if of, ok = of.Field("left"); !ok {
			t.Fatal("a tree has no left")
		}
	}
	if _, ok := of.Field("right"); ok {
		t.Error("a tree has a right")
	}
	if of, _ := of.Field("loop"); of.Kinds() != 0 {
		t.Error("a definition that is nothing but itself is something")
	}
}

// What any version of a CustomResourceDefinition allows is allowed.
func TestDefinitionTwice(t *testing.T) {
	t.Parallel()
	a := crd(t, "type: object\nproperties: {a: {type: string, enum: [x]}}")
	b := crd(t, "type: object\nproperties: {a: {type: string, enum: [z]}, b: {type: integer}}")
	spec, _ := Union(a, b).Field("spec")
	if _, ok := spec.Field("b"); !ok {
		t.Error("there can be no b")
	}
	if _, ok := spec.Field("c"); ok {
		t.Error("there can be a c")
	}
	if field, _ := spec.Field("a"); !slices.Equal(field.Enum(), []string{"x", "z"}) {
		t.Errorf("a is one of %q", field.Enum())
	}
}

func TestCondense(t *testing.T) {
	t.Parallel()
	document := func(properties string) []byte {
		return []byte(`{
		"paths": {
			"/api/v1/namespaces/{namespace}/pods": {"get": {"x-kubernetes-action": "list",
				"x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Pod"}}},
			"/api/v1/namespaces/{namespace}/pods/{name}": {"get": {"x-kubernetes-action": "get",
				"x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Pod"}}}},
		"components": {"schemas": {"Unused": {"type": "string"}, "Pod": {"type": "object",
			"x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
			"description": "long", "properties": {` + properties + `}}}}}`)
	}
	text, err := Condense(
		document(`"phase": {"type": "string", "enum": ["A"]}, "old": {"type": "string"},
			"kind": {"type": "string", "enum": ["A"]}, "size": {"type": "string"},
			"map": {"type": "object", "properties": {"x": {"type": "string"}}}`),
		document(`"phase": {"type": "string", "enum": ["B"]}, "new": {"type": "integer"},
			"kind": {"type": "string"}, "size": {"type": "integer"}, "map": {"type": "object"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"Unused", "long", "{name"} {
		if strings.Contains(string(text), gone) {
			t.Errorf("it keeps %s: %s", gone, text)
		}
	}
	c := NewCatalog(nil)
	if err := c.AddOpenAPI(text); err != nil {
		t.Fatal(err)
	}
	pod, ok := c.Of(k8s.GroupVersionResource{Version: "v1", Resource: "pods"})
	if !ok {
		t.Fatal("there are no pods")
	}
	if resource := c.ResourceOf(k8s.GroupVersionKind{Version: "v1", Kind: "Pod"}); resource != "pods" {
		t.Errorf("the resource of the kind Pod is %q", resource)
	}
	for _, name := range []string{"old", "new", "phase"} {
		if _, ok := pod.Field(name); !ok {
			t.Errorf("there can be no %s", name)
		}
	}
	if _, ok := pod.Field("other"); ok {
		t.Error("there can be other fields")
	}
	phase, _ := pod.Field("phase")
	kind, _ := pod.Field("kind")
	if !slices.Equal(phase.Enum(), []string{"A", "B"}) || kind.Enum() != nil {
		t.Errorf("phase is one of %q, kind of %q", phase.Enum(), kind.Enum())
	}
	if size, _ := pod.Field("size"); size.Kinds() != String|Number {
		t.Errorf("size is of kinds %b", size.Kinds())
	}
	inMap, _ := pod.Field("map")
	if _, ok := inMap.Field("y"); !ok {
		t.Error("a map that one version leaves open is closed")
	}
}

func FuzzAddDefinition(f *testing.F) {
	f.Add([]byte(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"spec": {"group": "g", "names": {"plural": "p"}, "versions": [{"name": "v1",
		"schema": {"openAPIV3Schema": {"properties": {"a": {"items": {"enum": [1, null]}}}}}}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := NewCatalog(nil)
		if c.AddDefinition(text) == nil {
			for _, of := range c.types {
				of.Field("spec")
				of.Fields()
			}
		}
		_ = NewCatalog(nil).AddOpenAPI(text)
		_, _ = Condense(text, text)
	})
}
