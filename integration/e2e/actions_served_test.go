package e2e

import (
	"errors"
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
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// A resource may be served only later, disappear, and return with another scope.
func TestResourcesThatComeAndGo(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	ev := x.about("source", handler.Added)
	client, err := dynamic.NewForConfig(cluster.Shared(t).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	define := func(scope string) {
		t.Helper()
		_, err := crds.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gadgets.actions.informd.dev"},
			"spec": map[string]any{
				"group": "actions.informd.dev", "scope": scope, "names": map[string]any{"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
						"spec":   map[string]any{"type": "object", "properties": map[string]any{"size": map[string]any{"type": "integer"}}},
						"status": map[string]any{"type": "object", "properties": map[string]any{"phase": map[string]any{"type": "string"}}},
					}}}}},
			},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	gadget := func(verb, namespace string, more ...func(*handler.Action)) handler.Action {
		return x.on(verb, "g", append(more, func(a *handler.Action) {
			a.Resource, a.Namespace = handler.Resource{Group: "actions.informd.dev", Version: "v1", Resource: "gadgets"}, namespace
		})...)
	}
	eventually := func(a handler.Action) {
		t.Helper()
		for deadline := time.Now().Add(harness.Patience); ; time.Sleep(50 * time.Millisecond) {
			err := x.Do(t.Context(), x.by, ev, list(a))
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			if errors.Is(err, handler.ErrReject) && !strings.Contains(err.Error(), "namespace") {
				t.Fatal(err)
			}
		}
	}
	apply := gadget(handler.ActionApply, x.ns, withObject(`{"spec":{"size":1}}`))
	if err := x.Do(t.Context(), x.by, ev, list(apply)); err == nil || !strings.Contains(err.Error(), "the cluster does not serve actions.informd.dev/v1") {
		t.Errorf("before it is served: %v", err)
	}
	define("Namespaced")
	eventually(apply)
	status := func(a *handler.Action) { a.Subresource = "status" }
	x.does(ev, list(
		apply, gadget(handler.ActionPatch, x.ns, merge(`{"spec":{"size":2}}`)),
		gadget(handler.ActionPatch, x.ns, merge(`{"status":{"phase":"Fine"}}`), status),
		gadget(handler.ActionApply, x.ns, withObject(`{"status":{"phase":"Finer"}}`), status),
	), nil, action.Unchanged, action.Changed, action.Changed, action.Changed)
	for _, wrong := range []handler.Action{
		gadget(handler.ActionApply, x.ns, withObject(`{"spec":{"size":"big"}}`)), gadget(handler.ActionApply, x.ns, withObject(`{"spec":{"colour":"red"}}`)),
		gadget(handler.ActionPatch, x.ns, merge(`{"spec":{"size":"big"}}`)), gadget(handler.ActionPatch, x.ns, merge(`{"spec":{"colour":"red"}}`)),
	} {
		x.does(ev, list(wrong), handler.ErrReject, action.Rejected)
	}

	if err := crds.Delete(t.Context(), "gadgets.actions.informd.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(50 * time.Millisecond) {
		if _, err := crds.Get(t.Context(), "gadgets.actions.informd.dev", metav1.GetOptions{}); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the definition does not go")
		}
	}
	define("Cluster")
	defer func() { _ = crds.Delete(t.Context(), "gadgets.actions.informd.dev", metav1.DeleteOptions{}) }()
	eventually(gadget(handler.ActionApply, "", withObject(`{"spec":{"size":1}}`)))
	x.does(ev, list(gadget(handler.ActionDelete, "")), nil, action.Changed)
}

// A Namespace still exists after the response to its deletion, although its metadata has no
// finalizer.
func TestDeletionOfANamespace(t *testing.T) {
	t.Parallel()
	x := newExecutor(t)
	x.made("source")
	namespace, err := x.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "going-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resource := handler.Resource{Version: "v1", Resource: "namespaces"}
	x.does(x.about("source", handler.Added), list(
		handler.Action{Verb: handler.ActionDelete, Resource: resource, Name: namespace.Name},
		handler.Action{Verb: handler.ActionPatch, Resource: resource, Name: namespace.Name, Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`)},
	), nil, action.Changed, action.Changed)
	namespace, err = x.kube.CoreV1().Namespaces().Get(t.Context(), namespace.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	key := delta.Key{Name: namespace.Name}
	if _, known := x.writes.Of(schema.GroupVersionResource(resource), key, namespace.ResourceVersion); !known {
		t.Error("the change is not known as the rule's own")
	}
	if _, known := x.writes.Of(schema.GroupVersionResource(resource), key, action.DeletionOf(string(namespace.UID))); known {
		t.Error("the deletion is taken for the rule's own before it happened")
	}
}
