package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// An API server accepts the Kubernetes manifests in docs/ and examples/, and knows all their
// fields. It does not know cert-manager's resources. TestDeploy tests deploy/.
func TestManifestsForKubernetes(t *testing.T) {
	t.Parallel()
	a := newApplier(t)
	var shown []string
	for _, page := range []string{"permissions", "remote-handlers"} {
		guide, err := os.ReadFile("../../docs/guides/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(guide), -1) {
			if strings.HasPrefix(block[1], "apiVersion:") {
				shown = append(shown, block[1])
			}
		}
	}
	example, err := os.ReadFile("../../examples/handlers/remote/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string]int)
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(strings.Join(append(shown, string(example)), "\n---\n"))), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kinds[o.GetKind()]++
		switch o.GroupVersionKind().Group {
		case "cert-manager.io", "informd.dev":
			continue
		}
		if o.GetKind() == "NetworkPolicy" {
			checkAdmits(t, o, statefulSet(t, "*.yaml"))
		}
		if o.GetNamespace() != "" {
			o.SetNamespace(a.k.Ns)
		}
		// Other tests make objects of the same names for all namespaces.
		if err := a.apply(t, o, metav1.DryRunAll); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	if kinds["Deployment"] < 2 || kinds["Service"] < 2 || kinds["Certificate"] != 3 || kinds["NetworkPolicy"] != 1 {
		t.Errorf("not all were found: %v", kinds)
	}
}

// checkAdmits fails if a NetworkPolicy keeps out the Pods of a StatefulSet.
func checkAdmits(t *testing.T, o *unstructured.Unstructured, set appsv1.StatefulSet) {
	t.Helper()
	var policy networkingv1.NetworkPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &policy); err != nil {
		t.Fatal(err)
	}
	for _, rule := range policy.Spec.Ingress {
		for _, from := range rule.From {
			selector, err := metav1.LabelSelectorAsSelector(from.PodSelector)
			if err != nil {
				t.Fatal(err)
			}
			if selector.Matches(labels.Set(set.Spec.Template.Labels)) {
				return
			}
		}
	}
	t.Errorf("the NetworkPolicy %s admits no Pod with the labels %v", o.GetName(), set.Spec.Template.Labels)
}
