package integration

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
)

// annotator is a handler with a kubeconfig: it writes zones where a payload says so.
func annotator(t *testing.T, k *kube) *httptest.Server {
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
			_, err = k.typed.CoreV1().Pods(k.ns).Patch(r.Context(), to.Pod, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // again, later
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// Pods are annotated by the zones of their nodes, whatever comes first, and whether informd was there at the time.
func TestPodsAreAnnotatedByTheirNodesZone(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := newKube(t, c)
	const zone = `first(lookup("nodes.byName", object.spec.nodeName)).metadata.labels["topology.kubernetes.io/zone"]`
	dir := folder(t, k.text(source("nodes", "resource: v1/nodes, keep: needed, indexes: {byName: object.metadata.name}")+
		source("pods", "resource: v1/pods, namespaces: [NS], keep: needed")+
		toldBy("annotate", "builtin: webhook, config: {url: "+annotator(t, k).URL+"}, retry: {backoff: 10ms, maxBackoff: 100ms}")+
		ruleFor("zones", `source: pods, resync: 1s, handler: annotate, events: [added, updated, synced], payload: {pod: object.metadata.name, zone: '`+zone+`'},
			when: '`+zone+` != nil and object.metadata.annotations["example.com/zone"] != `+zone+`'`)), "")
	annotated := func(pods map[string]string) {
		t.Helper()
		for name, want := range pods {
			k.eventually(fmt.Sprintf("%s in %q", name, want), func() bool {
				pod, err := k.typed.CoreV1().Pods(k.ns).Get(t.Context(), name, metav1.GetOptions{})
				return err == nil && pod.Annotations["example.com/zone"] == want
			})
		}
	}
	node := func(name, zone string) string {
		return `{apiVersion: v1, kind: Node, metadata: {name: NS-` + name + `, labels: {topology.kubernetes.io/zone: ` + zone + `}}}`
	}
	state := t.TempDir()
	north := k.create(node("north", "north"))
	k.create(podOn("there", "NS-north"))
	d := runInformd(t, c.Kubeconfig(), dir, "--state-dir", state)
	k.create(podOn("a", "NS-north"))
	k.create(pod("nowhere", "nginx"))
	k.create(podOn("early", "NS-south")) // its node comes later: the resync finds it
	annotated(map[string]string{"there": "north", "a": "north"})
	k.create(node("south", "south"))
	annotated(map[string]string{"early": "south"})

	d.kill()
	k.create(podOn("missed", "NS-south"))
	k.patch(north, `metadata: {labels: {topology.kubernetes.io/zone: east}}`)
	d = runInformd(t, c.Kubeconfig(), dir, "--state-dir", state)
	annotated(map[string]string{"missed": "south", "a": "east", "there": "east", "early": "south", "nowhere": ""})
	d.stop()
	if log := d.logged(); strings.Contains(log, "an expression failed") {
		t.Error(log)
	}
}
