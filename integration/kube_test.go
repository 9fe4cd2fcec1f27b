package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/informd/informd/integration/cluster"
)

// kube does with a cluster what a person does with kubectl. What it makes outside of namespaces goes when the test ends;
// namespaces stay, since nothing in the cluster would empty them, so each test makes its own.
type kube struct {
	t       testing.TB
	objects dynamic.Interface
	typed   kubernetes.Interface
	ns      string // replaces NS in manifests
}

// newKube makes a namespace with a name that nothing else has or begins with.
func newKube(t testing.TB, c *cluster.Cluster) *kube {
	t.Helper()
	k := &kube{t: t}
	var err error
	if k.objects, err = dynamic.NewForConfig(c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if k.typed, err = kubernetes.NewForConfig(c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "test-"},
	}}
	// Not by create, which would delete it in the end: it would stay in Terminating.
	namespace, err = k.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).
		Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.ns = namespace.GetName()
	return k
}

// text is a manifest with the test's own namespace in place of NS.
func (k *kube) text(manifest string) string { return strings.ReplaceAll(manifest, "NS", k.ns) }

// create makes the object of a manifest, in which NS stands for the test's namespace.
func (k *kube) create(manifest string) *unstructured.Unstructured {
	k.t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(k.text(manifest)), &o.Object); err != nil {
		k.t.Fatalf("%v in %s", err, manifest)
	}
	made, err := k.of(o).Create(k.t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	if made.GetNamespace() == "" {
		k.t.Cleanup(func() {
			err := k.of(made).Delete(context.Background(), made.GetName(), metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				k.t.Error(err)
			}
		})
	}
	return made
}

// patch merges a patch, written in YAML, into an object.
func (k *kube) patch(o *unstructured.Unstructured, patch string, subresources ...string) *unstructured.Unstructured {
	k.t.Helper()
	body, err := yaml.ToJSON([]byte(k.text(patch)))
	if err != nil {
		k.t.Fatalf("%v in %s", err, patch)
	}
	patched, err := k.of(o).Patch(k.t.Context(), o.GetName(), types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	if err != nil {
		k.t.Fatal(err)
	}
	return patched
}

func (k *kube) delete(o *unstructured.Unstructured) {
	k.t.Helper()
	if err := k.of(o).Delete(k.t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
		k.t.Fatal(err)
	}
}

// deleteNamespace ends one that is empty, as the namespace controller would.
func (k *kube) deleteNamespace(o *unstructured.Unstructured) {
	k.t.Helper()
	k.delete(o)
	namespace, err := k.typed.CoreV1().Namespaces().Get(k.t.Context(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	namespace.Spec.Finalizers = nil
	if _, err := k.typed.CoreV1().Namespaces().Finalize(k.t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
		k.t.Fatal(err)
	}
}

// of is where an object is kept. Its resource's name is guessed well enough for the kinds of these tests.
func (k *kube) of(o *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := o.GroupVersionKind()
	resource := strings.ToLower(gvk.Kind) + "s"
	if stem, ok := strings.CutSuffix(resource, "ys"); ok {
		resource = stem + "ies"
	}
	return k.objects.Resource(gvk.GroupVersion().WithResource(resource)).Namespace(o.GetNamespace())
}

// define makes a resource informd.test/v1/PLURAL whose objects may hold anything, and waits until it is served.
func (k *kube) define(kind string) *unstructured.Unstructured {
	k.t.Helper()
	return k.defineWith(strings.NewReplacer("KIND", kind, "NAME", strings.ToLower(kind)).Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: NAMEs.informd.test}
spec:
  group: informd.test
  scope: Namespaced
  names: {plural: NAMEs, singular: NAME, kind: KIND}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`))
}

// defineWith does so for the manifest of a CustomResourceDefinition.
func (k *kube) defineWith(manifest string) *unstructured.Unstructured {
	k.t.Helper()
	crd := k.create(manifest)
	k.t.Cleanup(func() { k.undefine(context.Background(), crd) })
	k.eventually("the resource to be served", func() bool {
		_, err := k.defined(crd).List(k.t.Context(), metav1.ListOptions{})
		return err == nil
	})
	return crd
}

// undefine deletes a resource, and waits until it has gone with all its objects.
func (k *kube) undefine(ctx context.Context, crd *unstructured.Unstructured) {
	k.t.Helper()
	if err := k.of(crd).Delete(ctx, crd.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		k.t.Error(err)
	}
	k.eventually("the resource to be gone", func() bool {
		_, err := k.of(crd).Get(ctx, crd.GetName(), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	k.eventually("the resource not to be served", func() bool {
		_, err := k.defined(crd).List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err)
	})
}

func (k *kube) defined(crd *unstructured.Unstructured) dynamic.ResourceInterface {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	return k.objects.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural})
}

// eventually is for what can only be looked at again and again.
func (k *kube) eventually(what string, met func() bool) {
	k.t.Helper()
	for deadline := time.Now().Add(patience); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			k.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
