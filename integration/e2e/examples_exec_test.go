package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// runScripts runs an example of examples/exec in a folder of its own. edit, unless it is nil,
// changes the manifests.
func runScripts(
	t *testing.T, file string, edit func(text string) string,
) (d *harness.Daemon, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/exec")); err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob(filepath.Join(dir, "*.py"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		if err := os.Chmod(script, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if edit != nil {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		edited := edit(string(text))
		if edited == string(text) {
			t.Fatalf("nothing to edit in %s", file)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(edited), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d = harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), filepath.Join(dir, file))
	d.AwaitReady()
	return d, dir
}

func TestExamplePodsZones(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Create(`{apiVersion: v1, kind: Node, metadata: {name: NS-node, labels: {topology.kubernetes.io/zone: north}}}`)
	d, _ := runScripts(t, "pods-zones.yaml", func(text string) string {
		// a command for each pod of all other tests would take too long
		return strings.Replace(text, "{resource: v1/pods}", "{resource: v1/pods, namespaces: ["+k.Ns+"]}", 1)
	})
	k.Create(harness.PodOn("web", "NS-node"))
	k.Create(harness.PodOn("early", "NS-late"))
	zone := func(name string) string {
		pod, err := k.Typed.CoreV1().Pods(k.Ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return pod.Labels["example.com/zone"]
	}
	k.Eventually("the label", func() bool { return zone("web") == "north" })
	d.AwaitLog("its node cannot be read")
	k.Create(`{apiVersion: v1, kind: Node, metadata: {name: NS-late, labels: {topology.kubernetes.io/zone: south}}}`)
	k.Eventually("the label of the other", func() bool { return zone("early") == "south" })
	d.Stop()
}

func TestExampleNodesLedger(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	d, dir := runScripts(t, "nodes-ledger.yaml", nil)
	node := k.Create(`{apiVersion: v1, kind: Node, metadata: {name: NS-node}}`)
	k.Patch(node, "metadata: {labels: {a: b}}") // which is not in the ledger
	k.Patch(node, "spec: {unschedulable: true}")
	k.Delete(node)
	mine := func() (lines []string) {
		for _, line := range harness.LinesOf(t, dir, "nodes.ledger") {
			if strings.Contains(line, k.Ns+"-node") {
				_, rest, _ := strings.Cut(line, `", "node": `)
				lines = append(lines, strings.ReplaceAll(rest, k.Ns, "NS"))
			}
		}
		return lines
	}
	k.Eventually("three entries", func() bool { return len(mine()) >= 3 })
	d.Stop()
	harness.Compare(t, []string{
		`"NS-node", "event": "added", "unschedulable": false}`,
		`"NS-node", "event": "updated", "unschedulable": true}`,
		`"NS-node", "event": "deleted", "unschedulable": true}`,
	}, mine())
}
