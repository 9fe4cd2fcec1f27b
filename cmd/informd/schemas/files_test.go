package schemas

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	k8s "k8s.io/apimachinery/pkg/runtime/schema"
)

func TestBuiltIn(t *testing.T) {
	t.Parallel()
	catalog, versions, err := readBuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	if versions != "1.30 to 1.37" {
		t.Errorf("versions %q", versions)
	}
	pod, ok := catalog.Of(k8s.GroupVersionResource{Version: "v1", Resource: "pods"})
	if !ok {
		t.Fatal("there are no pods")
	}
	status, _ := pod.Field("status")
	phase, _ := status.Field("phase")
	if len(phase.Enum()) != 5 {
		t.Errorf("phase is one of %q", phase.Enum())
	}
	if _, ok := status.Field("faze"); ok {
		t.Error("a pod may have status.faze")
	}
}

// Which resources have the subresource status is known of those that are built in.
func TestBuiltInStatus(t *testing.T) {
	t.Parallel()
	catalog, _ := BuiltIn()
	for resource, want := range map[k8s.GroupVersionResource]bool{
		{Version: "v1", Resource: "pods"}:                                      true,
		{Version: "v1", Resource: "namespaces"}:                                true,
		{Group: "apps", Version: "v1", Resource: "deployments"}:                true,
		{Group: "batch", Version: "v1", Resource: "cronjobs"}:                  true,
		{Version: "v1", Resource: "configmaps"}:                                false,
		{Version: "v1", Resource: "events"}:                                    false,
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}:      false,
		{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}:     true,
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}: false,
	} {
		if has, known := catalog.HasStatus(resource); has != want || !known {
			t.Errorf("%v has the subresource status: %t, known: %t; want %t", resource, has, known, want)
		}
	}
}

// Whether objects are in namespaces is known of all that are built in.
func TestBuiltInScopes(t *testing.T) {
	t.Parallel()
	catalog, _ := BuiltIn()
	for resource, want := range map[k8s.GroupVersionResource]bool{
		{Version: "v1", Resource: "pods"}:                                             true,
		{Version: "v1", Resource: "nodes"}:                                            false,
		{Version: "v1", Resource: "namespaces"}:                                       false,
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}:      true,
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}: false,
		{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}:          false,
	} {
		if is, known := catalog.IsNamespaced(resource); is != want || !known {
			t.Errorf("%v is in namespaces: %t, known: %t; want %t", resource, is, known, want)
		}
	}
}

const thing = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  group: example.com
  names: {plural: things}
  versions: [{name: v1, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]
`

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"more/things.yaml":   "# several\n---\nkind: Deployment\n---" + thing,
		"more/.hidden.yaml":  "kind: CustomResourceDefinition: {",
		"more/template.yaml": "{{ not YAML }}",
		"empty.yaml":         "kind: Deployment\n",
		"list.json": `{"kind": "List", "items": [{"apiVersion": "apiextensions.k8s.io/v1",
			"kind": "CustomResourceDefinition", "spec": {"group": "example.com",
			"names": {"plural": "others"}, "versions": [{"name": "v1"}]}}]}`,
		"bad/syntax.yaml": "kind: CustomResourceDefinition: {",
		"bad/no.yaml":     "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	catalog, err := Read([]string{filepath.Join(dir, "more"), filepath.Join(dir, "list.json")})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"things", "others"} {
		resource := k8s.GroupVersionResource{Group: "example.com", Version: "v1", Resource: name}
		if _, ok := catalog.Of(resource); !ok {
			t.Errorf("there are no %s", name)
		}
	}
	for path, want := range map[string]string{
		"empty.yaml":      "empty.yaml has no schemas: informd reads CustomResourceDefinitions",
		"missing":         "missing does not exist",
		"bad/syntax.yaml": "bad/syntax.yaml: document 1: it is not YAML",
		"bad/no.yaml":     "bad/no.yaml: document 1: the CustomResourceDefinition has no spec.group",
	} {
		_, err := Read([]string{filepath.Join(dir, path)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
