package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// annotator is a handler with a kubeconfig. It writes the zone that the payload names.
func annotator(t *testing.T, k *harness.Kube) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event struct {
			Data struct{ Payload struct{ Pod, Zone string } }
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		to := event.Data.Payload
		if err == nil {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/zone":%q}}}`, to.Zone)
			_, err = k.Typed.CoreV1().Pods(k.Ns).Patch(r.Context(), to.Pod, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // again, later
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// Pods get the zones of their nodes as annotations, whichever comes first, and also if informd was
// away at the time.
func TestPodsAreAnnotatedByTheirNodesZone(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	const zone = `first(lookup("nodes.byName", object.spec.nodeName)).metadata.labels["topology.kubernetes.io/zone"]`
	dir := harness.Folder(t, k.Text(harness.Source("nodes", "resource: v1/nodes, keep: needed, indexes: {byName: object.metadata.name}")+
		harness.Source("pods", "resource: v1/pods, namespaces: [NS], keep: needed")+
		harness.Handler("annotate", "builtin: webhook, config: {url: "+annotator(t, k).URL+"}, retry: {backoff: 10ms, maxBackoff: 100ms}")+
		harness.Rule("zones", `source: pods, resync: 1s, handler: annotate, events: [added, updated, synced], payload: {pod: object.metadata.name, zone: '`+zone+`'},
			when: '`+zone+` != nil and object.metadata.annotations["example.com/zone"] != `+zone+`'`)), "")
	annotated := func(pods map[string]string) {
		t.Helper()
		for name, want := range pods {
			k.Eventually(fmt.Sprintf("%s in %q", name, want), func() bool {
				pod, err := k.Typed.CoreV1().Pods(k.Ns).Get(t.Context(), name, metav1.GetOptions{})
				return err == nil && pod.Annotations["example.com/zone"] == want
			})
		}
	}
	node := func(name, zone string) string {
		return `{apiVersion: v1, kind: Node, metadata: {name: NS-` + name + `, labels: {topology.kubernetes.io/zone: ` + zone + `}}}`
	}
	state := t.TempDir()
	north := k.Create(node("north", "north"))
	k.Create(harness.PodOn("there", "NS-north"))
	d := harness.RunInformd(t, c.Kubeconfig(), dir, "--state-dir", state)
	k.Create(harness.PodOn("a", "NS-north"))
	k.Create(harness.Pod("nowhere", "nginx"))
	k.Create(harness.PodOn("early", "NS-south")) // its node comes later: the resync finds it
	annotated(map[string]string{"there": "north", "a": "north"})
	k.Create(node("south", "south"))
	annotated(map[string]string{"early": "south"})

	d.Kill()
	k.Create(harness.PodOn("missed", "NS-south"))
	k.Patch(north, `metadata: {labels: {topology.kubernetes.io/zone: east}}`)
	d = harness.RunInformd(t, c.Kubeconfig(), dir, "--state-dir", state)
	annotated(map[string]string{"missed": "south", "a": "east", "there": "east", "early": "south", "nowhere": ""})
	d.Stop()
	if log := d.Logged(); strings.Contains(log, "an expression failed") {
		t.Error(log)
	}
}
