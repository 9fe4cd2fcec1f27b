package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/object"
)

const applies = `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: s}
spec: {resource: v1/pods}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: a}
spec:
  source: s
  actions:
  - apply:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${object.metadata.name}"}
  - create: {kind: NetworkPolicy, apiVersion: networking.k8s.io/v1, metadata: {name: a}}
  - apply: {apiVersion: v1, kind: Endpoints, metadata: {name: a}}
  - apply: {apiVersion: example.com/v1, kind: Sheep, metadata: {name: a}}
  - apply: {apiVersion: example.com/v1, kind: Wool, metadata: {name: a}}
  - apply: {apiVersion: policy/v1, kind: NetworkPolicy, metadata: {name: a}}
  - apply: {apiVersion: apps/v1, kind: Deploymnt, metadata: {name: a}}
  - apply: {resource: v1/pods/status, object: {metadata: {name: a}}}
  - apply: {apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a}}
  - apply: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: a}, object: {a: 1}, resource: cpu}
  - apply: {apiVersion: extensions/v1beta1, kind: Ingress, metadata: {name: a}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sheep.example.com}
spec: {group: example.com, names: {kind: Sheep, plural: sheep}, versions: [{name: v1}]}
`

// The resource of an object below apply or create follows from its apiVersion and kind: by
// Kubernetes' own kinds, by CustomResourceDefinitions beside the manifests, and by what else is known.
func TestKindsNameResources(t *testing.T) {
	t.Parallel()
	read, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(applies)}})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	resources := func(c *Config) (all []string) {
		for _, a := range c.Rules[0].Actions {
			all = append(all, object.ResourceName(a.Resource)+" at "+a.ResourceAt.String())
		}
		return all
	}
	want := []string{
		"v1/configmaps at ConfigMap", "networking.k8s.io/v1/networkpolicies at NetworkPolicy", "v1/endpoints at Endpoints",
		"example.com/v1/sheep at Sheep", "example.com/v1/ at Wool", "policy/v1/ at NetworkPolicy", "apps/v1/ at Deploymnt",
		"v1/pods at v1/pods/status", // the subresource stands apart
		"serving.knative.dev/v1/ at Service", "batch.volcano.sh/v1alpha1/ at Job", "extensions/v1beta1/ at Ingress",
	}
	if diff := cmp.Diff(want, resources(read)); diff != "" {
		t.Error(diff)
	}
	if got := written(read.Rules[0].Actions[0].Object); got != "{apiVersion:'v1',kind:'ConfigMap',metadata:{name:'${object.metadata.name}'}}" {
		t.Errorf("the object is %s", got)
	}

	named := read.Named(func(k schema.GroupVersionKind) string {
		if k.Kind == "Wool" {
			return "wool"
		}
		return ""
	})
	if got := resources(named)[4]; got != "example.com/v1/wool at Wool" {
		t.Errorf("it is named %s", got)
	}
	if got := resources(read)[4]; got != want[4] {
		t.Errorf("in the first configuration it is named %s now", got)
	}
	if got := len(named.Unnamed()); got != 5 {
		t.Errorf("%d kinds have no name: %v", got, named.Unnamed())
	}

	const report = `a.yaml:20:47: no schema says which resource the kind Wool of example.com/v1 is: give its CustomResourceDefinition with -f, or write {resource: example.com/v1/PLURAL, object: …}
a.yaml:21:42: there is no kind NetworkPolicy in policy/v1: write apiVersion: networking.k8s.io/v1
a.yaml:22:40: there is no kind Deploymnt in apps/v1; did you mean "Deployment"?
a.yaml:24:55: no schema says which resource the kind Service of serving.knative.dev/v1 is: give its CustomResourceDefinition with -f, or write {resource: serving.knative.dev/v1/PLURAL, object: …}
a.yaml:25:58: no schema says which resource the kind Job of batch.volcano.sh/v1alpha1 is: give its CustomResourceDefinition with -f, or write {resource: batch.volcano.sh/v1alpha1/PLURAL, object: …}
a.yaml:26:51: there is no kind Ingress in extensions/v1beta1: write apiVersion: networking.k8s.io/v1
`
	var got strings.Builder
	for _, m := range read.MistakenKinds("-f") {
		got.WriteString(m.Position.String() + ": " + m.Message + "\n")
	}
	if diff := cmp.Diff(report, got.String()); diff != "" {
		t.Error(diff)
	}
}
