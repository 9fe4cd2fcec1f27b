package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/plugins/handler"
)

// The API server answers some deletions with the object as it was before. The rule recognises these
// deletions as its own, too.
func TestDeletionAnsweredWithTheObject(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	service, err := x.kube.CoreV1().Services(x.ns).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	services := handler.Resource{Version: "v1", Resource: "services"}
	gone := handler.Action{Verb: handler.ActionDelete, Resource: services, Namespace: x.ns, Name: "s"}
	x.does(x.about("source", handler.Added), list(gone), nil, action.Changed)
	w, known := x.writes.Of(schema.GroupVersionResource(services), delta.Key{Namespace: x.ns, Name: "s"}, action.DeletionOf(string(service.UID)))
	if !known || w.Rule != "r" {
		t.Errorf("the deletion is not known as the rule's own: %+v %v", w, known)
	}
}

// A missing status subresource is an error, not an object that is gone.
func TestStatusOfResourcesWithoutStatus(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	ev := x.about("source", handler.Added)
	bare := handler.Resource{Group: "actions.informd.test", Version: "v1", Resource: "bares"}
	define(t, bare, "Bare")
	made := handler.Action{Verb: handler.ActionApply, Resource: bare, Namespace: x.ns, Name: "b", Object: []byte(`{"spec":{"a":1}}`)}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		err := x.Do(t.Context(), x.by, ev, list(made))
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for _, a := range []handler.Action{
		{Verb: handler.ActionPatch, Patch: []byte(`{"status":{"a":1}}`)},
		{Verb: handler.ActionApply, Object: []byte(`{"status":{"a":1}}`)},
	} {
		a.Resource, a.Subresource, a.Namespace, a.Name = bare, "status", x.ns, "b"
		err := x.does(ev, list(a), errAny, action.Failed)
		if err == nil || !strings.Contains(err.Error(), "does not serve actions.informd.test/v1/bares/status") {
			t.Errorf("%s: %v", a.Verb, err)
		}
	}
}

// define makes the API server serve a resource without a schema and without a status.
func define(t *testing.T, r handler.Resource, kind string) {
	t.Helper()
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": r.Resource + "." + r.Group},
		"spec": map[string]any{
			"group": r.Group, "scope": "Namespaced", "names": map[string]any{"plural": r.Resource, "kind": kind},
			"versions": []any{map[string]any{
				"name": r.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	crds := dynamic.NewForConfigOrDie(cluster.Shared(t).RESTConfig()).
		Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Mistakes in an object are final, and the reasons quote none of its text.
func TestFailuresDoNotQuoteObjects(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	ev := x.about("source", handler.Added)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": "b"}}
	if _, err := x.kube.CoreV1().Secrets(x.ns).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, member := range []string{
		`"data":"hush"`, `"data":["hush"]`, `"data":{"a":"hush!"}`, `"data":{"a":["hush"]}`, `"data":{"a":{"b":"hush"}}`,
		`"stringData":"hush"`, `"stringData":["hush"]`, `"stringData":{"a":{"b":"hush"}}`, `"immutable":"hush"`, `"type":{"a":"hush"}`,
		`"metadata":{"labels":{"a":"hush !"}}`, `"metadata":{"labels":["hush"]}`, `"metadata":{"annotations":"hush"}`,
		`"metadata":{"creationTimestamp":"hush"}`, `"metadata":{"finalizers":"hush"}`,
	} {
		a := handler.Action{Resource: handler.Resource{Version: "v1", Resource: "secrets"}, Namespace: x.ns, Name: "s"}
		text := []byte("{" + member + "}")
		for _, verb := range []string{handler.ActionApply, handler.ActionPatch, handler.ActionCreate} {
			a.Verb, a.Object, a.Patch = verb, text, nil
			switch verb {
			case handler.ActionPatch:
				a.Object, a.Patch = nil, text
			case handler.ActionCreate:
				a.Name = fmt.Sprint("new-", i)
			}
			if err := x.does(ev, list(a), handler.ErrReject, action.Rejected); err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("%s of %s: %v", verb, member, err)
			}
		}
	}
	if strings.Contains(x.audit.String(), "hush") {
		t.Error("it is in the audit")
	}
}
