package harness

import (
	"bytes"
	"errors"
	"io"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/informd/informd/integration/cluster"
)

// Documents returns the objects of several YAML documents.
func Documents(t testing.TB, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		all = append(all, o)
	}
}

// Apply makes objects, or replaces them.
func (k *Kube) Apply(all []*unstructured.Unstructured) {
	k.t.Helper()
	for _, o := range all {
		_, err := k.Resource(o).Apply(k.t.Context(), o.GetName(), o,
			metav1.ApplyOptions{FieldManager: "test", Force: true})
		if err != nil {
			k.t.Fatal(err)
		}
	}
}

// LeastRights makes a service account with the rights that informd rbac prints for manifests, a file
// or a folder, and no others. It returns a kubeconfig for the account.
func LeastRights(t testing.TB, c *cluster.Cluster, manifests string) (kubeconfig string) {
	t.Helper()
	k := NewKube(t, c)
	code, printed, errs := Informd(t, "rbac", "-f", manifests, "--service-account", k.Ns+"/informd")
	if code != 0 {
		t.Fatalf("informd rbac: exit code %d: %s", code, errs)
	}
	for _, o := range Documents(t, printed) { // some are in namespaces that a test makes later
		if in := o.GetNamespace(); in != "" && in != k.Ns {
			namespace := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": in},
			}}
			_, err := k.Resource(namespace).Create(t.Context(), namespace, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
		k.Apply([]*unstructured.Unstructured{o})
	}
	return k.AccountKubeconfig(c, "informd")
}

// AccountKubeconfig returns a kubeconfig for a service account of the test's namespace.
func (k *Kube) AccountKubeconfig(c *cluster.Cluster, account string) string {
	k.t.Helper()
	token, err := k.Typed.CoreV1().ServiceAccounts(k.Ns).CreateToken(k.t.Context(), account,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		k.t.Fatal(err)
	}
	user := config.Contexts[config.CurrentContext].AuthInfo
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	path := WriteFile(k.t, "kubeconfig", "")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		k.t.Fatal(err)
	}
	return path
}
