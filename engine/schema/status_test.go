package schema

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	k8s "k8s.io/apimachinery/pkg/runtime/schema"
)

// document is an OpenAPI document of two resources, one of which has the subresource status.
const twoResources = `{"paths": {
	"/apis/x/v1/trees": LIST,
	"/apis/x/v1/namespaces/{namespace}/trees": LIST,
	"/apis/x/v1/namespaces/{namespace}/trees/{name}": {},
	"/apis/x/v1/namespaces/{namespace}/trees/{name}/status": {"get": {}},
	"/apis/x/v1/woods": {"get": {"x-kubernetes-action": "list",
		"x-kubernetes-group-version-kind": {"group": "x", "version": "v1", "kind": "Wood"}}},
	"/apis/x/v1/woods/{name}": {}},
	"components": {"schemas": {
		"Tree": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "x", "version": "v1", "kind": "Tree"}]},
		"Wood": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "x", "version": "v1", "kind": "Wood"}]}}}}`

// A Catalog knows which resources have the subresource status: of a whole document, of a condensed
// one, and of a CustomResourceDefinition.
func TestStatus(t *testing.T) {
	t.Parallel()
	whole := []byte(strings.ReplaceAll(twoResources, "LIST", `{"get": {"x-kubernetes-action": "list",
		"x-kubernetes-group-version-kind": {"group": "x", "version": "v1", "kind": "Tree"}}}`))
	condensed, err := Condense(whole)
	if err != nil {
		t.Fatal(err)
	}
	var paths map[string]map[string]json.RawMessage
	if err := json.Unmarshal(condensed, &paths); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(paths["paths"], func(at string, _ json.RawMessage) bool { return strings.Contains(at, "{name}") })
	old, err := json.Marshal(paths) // an older informd kept no paths of single objects
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		text             []byte
		trees, woods, is bool // whether it is known
	}{
		"whole":     {whole, true, false, true},
		"condensed": {condensed, true, false, true},
		"old":       {old, false, false, false},
	} {
		c := NewCatalog(nil)
		if err := c.AddOpenAPI(test.text); err != nil {
			t.Fatal(err)
		}
		for resource, want := range map[string]bool{"trees": test.trees, "woods": test.woods} {
			has, known := c.HasStatus(k8s.GroupVersionResource{Group: "x", Version: "v1", Resource: resource})
			if has != want || known != test.is {
				t.Errorf("%s: %s: %t, %t", name, resource, has, known)
			}
			is, known := c.IsNamespaced(k8s.GroupVersionResource{Group: "x", Version: "v1", Resource: resource})
			if is != (test.is && resource == "trees") || known != test.is {
				t.Errorf("%s: %s is namespaced: %t, %t", name, resource, is, known)
			}
		}
	}

	c := NewCatalog(nil)
	const definition = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"group": "x",
		"names": {"plural": "trees"}, "versions": [{"name": "v1", "subresources": {"status": {}}}, {"name": "v2"},
		{"name": "v3", "subresources": {"scale": {}}}, {"name": "v4"}]}}`
	if err := c.AddDefinition([]byte(definition)); err != nil {
		t.Fatal(err)
	}
	if err := c.AddDefinition([]byte(strings.ReplaceAll(strings.ReplaceAll(definition, `"x"`, `"y"`), "io/v1", "io/v1beta1"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.AddDefinition([]byte(strings.ReplaceAll(definition, `{"name": "v4"}`, `{"name": "v4", "subresources": {"status": {}}}`))); err != nil {
			t.Fatal(err)
		}
	}
	for resource, want := range map[k8s.GroupVersionResource][2]bool{
		{Group: "x", Version: "v1", Resource: "trees"}: {true, true},
		{Group: "x", Version: "v2", Resource: "trees"}: {false, true},
		{Group: "x", Version: "v3", Resource: "trees"}: {false, true},
		{Group: "y", Version: "v1", Resource: "trees"}: {false, false},
		{Group: "z", Version: "v1", Resource: "trees"}: {false, false},
		{Group: "x", Version: "v4", Resource: "trees"}: {false, false}, // two definitions disagree
	} {
		if has, known := c.HasStatus(resource); [2]bool{has, known} != want {
			t.Errorf("%v: %t, %t; want %v", resource, has, known, want)
		}
	}
}

// A CustomResourceDefinition says whether its objects are in namespaces.
func TestScopesOfDefinitions(t *testing.T) {
	t.Parallel()
	c := NewCatalog(nil)
	for _, spec := range []string{
		`"scope": "Namespaced", "names": {"plural": "trees"}`, `"scope": "Cluster", "names": {"plural": "woods"}`,
		`"names": {"plural": "bushes"}`,
	} {
		if err := c.AddDefinition([]byte(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"spec": {"group": "x", "versions": [{"name": "v1"}], ` + spec + `}}`)); err != nil {
			t.Fatal(err)
		}
	}
	for resource, want := range map[string][2]bool{"trees": {true, true}, "woods": {false, true}, "bushes": {false, false}} {
		is, known := c.IsNamespaced(k8s.GroupVersionResource{Group: "x", Version: "v1", Resource: resource})
		if [2]bool{is, known} != want {
			t.Errorf("%s: %t, %t; want %v", resource, is, known, want)
		}
	}
}
