package harness

import (
	"crypto/rand"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/integration/apistub"
)

var ConfigMapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// NewStub starts a stub of an API server that serves configmaps and namespaces, and returns it with
// the path of its kubeconfig. It has the namespace kube-system, whose uid tells clusters apart.
func NewStub(t *testing.T) (*apistub.Server, string) {
	t.Helper()
	stub := apistub.New(t)
	stub.Serve(ConfigMapResource, "ConfigMap", true)
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	stub.Serve(namespaces, "Namespace", false)
	stub.Apply(namespaces, fmt.Sprintf(`{"metadata":{"name":"kube-system","uid":%q}}`, rand.Text()))
	return stub, WriteFile(t, "kubeconfig", fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: stub, cluster: {server: %s}}]
users: [{name: stub, user: {}}]
contexts: [{name: stub, context: {cluster: stub, user: stub}}]
current-context: stub
`, stub.Config().Host))
}
