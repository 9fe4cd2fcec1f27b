package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/informd/informd/integration/cluster"
)

// Kube does with a cluster what a person does with kubectl. When the test ends, it deletes what it
// made outside of namespaces. Namespaces stay, because this cluster has no controller that would
// empty them; so each test makes its own.
type Kube struct {
	t       testing.TB
	Objects dynamic.Interface
	Typed   kubernetes.Interface
	Ns      string // replaces NS in manifests
}

// NewKube makes a namespace. No other name equals its name or begins with it.
func NewKube(t testing.TB, c *cluster.Cluster) *Kube {
	t.Helper()
	k := &Kube{t: t}
	var err error
	if k.Objects, err = dynamic.NewForConfig(c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if k.Typed, err = kubernetes.NewForConfig(c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"generateName": "test-"},
	}}
	// Create would delete it in the end, and it would stay in Terminating.
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	namespace, err = k.Objects.Resource(namespaces).
		Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.Ns = namespace.GetName()
	return k
}

// Text replaces NS in a manifest with the test's own namespace.
func (k *Kube) Text(manifest string) string { return strings.ReplaceAll(manifest, "NS", k.Ns) }

// Create makes the object of a manifest. NS in it stands for the test's namespace.
func (k *Kube) Create(manifest string) *unstructured.Unstructured {
	k.t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(k.Text(manifest)), &o.Object); err != nil {
		k.t.Fatalf("%v in %s", err, manifest)
	}
	made, err := k.Resource(o).Create(k.t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	if made.GetNamespace() == "" {
		k.t.Cleanup(func() {
			// The test's context has ended by now.
			err := k.Resource(made).
				Delete(context.Background(), made.GetName(), metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				k.t.Error(err)
			}
		})
	}
	return made
}

// Patch merges a patch in YAML into an object.
func (k *Kube) Patch(
	o *unstructured.Unstructured, patch string, subresources ...string) *unstructured.Unstructured {
	k.t.Helper()
	body, err := yaml.ToJSON([]byte(k.Text(patch)))
	if err != nil {
		k.t.Fatalf("%v in %s", err, patch)
	}
	patched, err := k.Resource(o).Patch(k.t.Context(), o.GetName(),
		types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	if err != nil {
		k.t.Fatal(err)
	}
	return patched
}

func (k *Kube) Delete(o *unstructured.Unstructured) {
	k.t.Helper()
	if err := k.Resource(o).Delete(k.t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
		k.t.Fatal(err)
	}
}

// DeleteNamespace removes an empty namespace, as the namespace controller would.
func (k *Kube) DeleteNamespace(o *unstructured.Unstructured) {
	k.t.Helper()
	k.Delete(o)
	namespaces := k.Typed.CoreV1().Namespaces()
	namespace, err := namespaces.Get(k.t.Context(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	namespace.Spec.Finalizers = nil
	_, err = namespaces.Finalize(k.t.Context(), namespace, metav1.UpdateOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
}

// Resource returns the client for an object's resource. It guesses the resource's name from the
// kind, which works for the kinds in these tests.
func (k *Kube) Resource(o *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := o.GroupVersionKind()
	resource := strings.ToLower(gvk.Kind) + "s"
	if stem, ok := strings.CutSuffix(resource, "ys"); ok {
		resource = stem + "ies"
	}
	return k.Objects.Resource(gvk.GroupVersion().WithResource(resource)).Namespace(o.GetNamespace())
}

// Define makes a resource informd.test/v1/PLURAL whose objects may hold anything, and waits until
// the API server serves it. Two tests of a package that run at once must define different kinds.
func (k *Kube) Define(kind string) *unstructured.Unstructured {
	k.t.Helper()
	return k.DefineWith(strings.NewReplacer("KIND", kind, "NAME", strings.ToLower(kind)).Replace(`
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

// DefineWith makes the resource of a CustomResourceDefinition's manifest, like Define.
func (k *Kube) DefineWith(manifest string) *unstructured.Unstructured {
	k.t.Helper()
	crd := k.Create(manifest)
	k.t.Cleanup(func() { k.Undefine(context.Background(), crd) })
	k.Eventually("the resource to be served", func() bool {
		_, err := k.defined(crd).List(k.t.Context(), metav1.ListOptions{})
		return err == nil
	})
	return crd
}

// Undefine deletes a resource and waits until it and all its objects are gone.
func (k *Kube) Undefine(ctx context.Context, crd *unstructured.Unstructured) {
	k.t.Helper()
	err := k.Resource(crd).Delete(ctx, crd.GetName(), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		k.t.Error(err)
	}
	k.Eventually("the resource to be gone", func() bool {
		_, err := k.Resource(crd).Get(ctx, crd.GetName(), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	k.Eventually("the resource not to be served", func() bool {
		_, err := k.defined(crd).List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err)
	})
}

func (k *Kube) defined(crd *unstructured.Unstructured) dynamic.ResourceInterface {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
	return k.Objects.Resource(gvr)
}

// Eventually polls until met returns true.
func (k *Kube) Eventually(what string, met func() bool) {
	k.t.Helper()
	for began := time.Now(); !met(); time.Sleep(pollPause(time.Since(began))) {
		if time.Since(began) > Patience {
			k.t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}

// Limited returns a kubeconfig for a user of the test's own, who may do nothing without Allow.
func (k *Kube) Limited(t *testing.T) string {
	t.Helper()
	return Edited(t, func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) {
		a.Impersonate = k.Ns
	})
}

// Allow gives the user of Limited rights in the test's namespace. rules is a list of RBAC rules.
func (k *Kube) Allow(name, rules string) {
	k.t.Helper()
	k.Create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, ` +
		`metadata: {namespace: NS, name: ` + name + `}, rules: ` + rules + `}`)
	k.Create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, ` +
		`metadata: {namespace: NS, name: ` + name + `}, ` +
		`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ` + name + `}, ` +
		`subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: NS}]}`)
}

func (k *Kube) ConfigMap(name string) (*corev1.ConfigMap, error) {
	return k.Typed.CoreV1().ConfigMaps(k.Ns).Get(k.t.Context(), name, metav1.GetOptions{})
}

// Has waits until a ConfigMap has a value under a key. With "" it waits until it has none.
func (k *Kube) Has(name, key, value string) {
	k.t.Helper()
	k.Eventually(fmt.Sprintf("%s of %s to be %q", key, name, value), func() bool {
		cm, err := k.ConfigMap(name)
		return err == nil && cm.Data[key] == value
	})
}

// Gone waits until a ConfigMap is gone.
func (k *Kube) Gone(name string) {
	k.t.Helper()
	k.Eventually(name+" to be gone", func() bool {
		_, err := k.ConfigMap(name)
		return apierrors.IsNotFound(err)
	})
}

// EventsOf returns the cluster's Events about a ConfigMap.
func (k *Kube) EventsOf(name string) []corev1.Event {
	k.t.Helper()
	options := metav1.ListOptions{FieldSelector: "involvedObject.name=" + name}
	list, err := k.Typed.CoreV1().Events(k.Ns).List(k.t.Context(), options)
	if err != nil {
		k.t.Fatal(err)
	}
	return list.Items
}

func CreateNamespace(t testing.TB, client kubernetes.Interface, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// ServerCounts returns the sum of the API server's series of a metric that have all these labels.
func (k *Kube) ServerCounts(metric string, labels ...string) int {
	k.t.Helper()
	body, err := k.Typed.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	sum := 0
	for line := range strings.Lines(string(body)) {
		missing := func(label string) bool { return !strings.Contains(line, label) }
		if !strings.HasPrefix(line, metric+"{") || slices.ContainsFunc(labels, missing) {
			continue
		}
		fields := strings.Fields(line)
		n, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil {
			k.t.Fatalf("%s: %v", line, err)
		}
		sum += n
	}
	return sum
}

// Edited returns the path of the shared cluster's kubeconfig with a change.
func Edited(t *testing.T, edit func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(cluster.Shared(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	context := config.Contexts[config.CurrentContext]
	edit(config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo])
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
