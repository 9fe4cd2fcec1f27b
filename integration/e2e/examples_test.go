package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

const (
	rules       = "../../examples/rules"
	automations = "../../examples/actions"
	manifests   = "../../examples/manifests"
)

func runExample(t *testing.T, file string, args ...string) *harness.Daemon {
	t.Helper()
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), filepath.Join(rules, file), args...)
	d.AwaitReady()
	return d
}

func readManifest(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(manifests, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// automationFiles returns the manifests of the automations, without their tests.
func automationFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(automations, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(path string) bool { return strings.HasSuffix(path, "_test.yaml") })
}

func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	for _, path := range append(automationFiles(t), automations, rules, "../../examples/exec") {
		if code, stdout, stderr := harness.Informd(t, "check", "-f", path); code != 0 {
			t.Errorf("%s: exit code %d\n%s%s", path, code, stdout, stderr)
		}
	}
}

func TestExamplesPassTheirTests(t *testing.T) {
	t.Parallel()
	for _, path := range []string{automations, rules, "../../examples/webhook"} {
		if code, stdout, stderr := harness.Informd(t, "test", "-f", path); code != 0 {
			t.Errorf("%s: exit code %d\n%s%s", path, code, stdout, stderr)
		}
	}
}

// exclusive is held by tests that must not run at once: one example posts to a fixed port, and one
// needs a resource that the API server serves at times.
var exclusive sync.Mutex

func TestExamplesRunTogether(t *testing.T) {
	t.Parallel()
	exclusive.Lock()
	defer exclusive.Unlock()
	k := harness.NewKube(t, cluster.Shared(t))
	d := runExample(t, "")
	if _, body := d.Get("/readyz"); !strings.Contains(body, "[+] source backups: not served") {
		t.Errorf("/readyz does not say that backups waits for its CRD:\n%s", body)
	}
	k.Create(harness.Pod("web", "nginx"))
	k.Sees(d, "pods-added NS/web added")
	k.Sees(d, "images NS/web added")
	d.Stop()
}

func TestExamplePodsAdded(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Create(harness.Pod("there-before", "nginx"))
	d := runExample(t, "pods-added.yaml")

	web := k.Create(harness.Pod("web", "nginx"))
	k.Patch(web, `metadata: {labels: {tier: front}}`)
	k.Delete(web)
	k.Create(harness.Pod("last", "nginx"))

	k.Saw(d,
		`pods-added NS/web added`,
		`pods-added NS/last added`)
}

func TestExamplePodsSummary(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	k.Patch(k.Create(harness.Pod("web", "nginx")), `status: {phase: Failed}`, "status")
	d := runExample(t, "pods-summary.yaml")
	events := d.Await("the report of the start", func(events []handler.Event) bool { return len(events) > 0 })
	ev := events[0]
	if ev.Name != "pods-summary" || ev.Event != "synced" || !strings.Contains(string(ev.Payload), k.Text(`"NS/web"`)) {
		t.Errorf("the report of the start is %s %s %s", ev.Name, ev.Event, ev.Payload)
	}
	d.Stop()
}

func TestExampleNamespaces(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	d := runExample(t, "namespaces.yaml")

	// informd merges waiting changes of one object, so each step waits for the events of the one
	// before.
	shop := k.Create(`{apiVersion: v1, kind: Namespace, metadata: {name: NS-shop}}`)
	k.Sees(d, "namespaces-come-and-go NS-shop added")
	k.Patch(shop, `metadata: {labels: {team: checkout}}`)
	k.Sees(d, "namespaces-relabelled NS-shop updated")
	k.Patch(shop, `metadata: {annotations: {note: hello}}`)
	k.DeleteNamespace(shop)
	k.Sees(d, "namespaces-come-and-go NS-shop deleted")
	k.Create(`{apiVersion: v1, kind: Namespace, metadata: {name: NS-last}}`)

	k.Saw(d,
		`namespaces-come-and-go NS-shop added {"namespace":"NS-shop","labels":{"kubernetes.io/metadata.name":"NS-shop"}}`,
		`namespaces-relabelled NS-shop updated {"namespace":"NS-shop",`+
			`"before":{"kubernetes.io/metadata.name":"NS-shop"},"after":{"kubernetes.io/metadata.name":"NS-shop","team":"checkout"}}`,
		`namespaces-come-and-go NS-shop deleted {"namespace":"NS-shop","labels":{"kubernetes.io/metadata.name":"NS-shop","team":"checkout"}}`,
		`namespaces-come-and-go NS-last added {"namespace":"NS-last","labels":{"kubernetes.io/metadata.name":"NS-last"}}`)
}

func TestExampleCustomResource(t *testing.T) {
	t.Parallel()
	exclusive.Lock()
	t.Cleanup(exclusive.Unlock) // after the resource is gone again
	k := harness.NewKube(t, cluster.Shared(t))
	d := runExample(t, "custom-resource.yaml") // ready, though the resource is not served yet

	crd := k.DefineWith(readManifest(t, "backup-crd.yaml"))
	nightly := k.Create(strings.ReplaceAll(readManifest(t, "backup.yaml"), "namespace: default", "namespace: NS"))
	k.Sees(d, `backups NS/nightly added`)
	k.Patch(nightly, `status: {phase: Running}`, "status")
	k.Sees(d, `backups NS/nightly updated`)
	k.Undefine(t.Context(), crd)

	k.Saw(d,
		`backups NS/nightly added {"backup":"NS/nightly","database":"orders","schedule":"0 3 * * *","phase":null}`,
		`backups NS/nightly updated {"backup":"NS/nightly","database":"orders","schedule":"0 3 * * *","phase":"Running"}`,
		`backups NS/nightly deleted {"backup":"NS/nightly","database":"orders","schedule":"0 3 * * *","phase":"Running"}`)
}

func TestExampleWarningEvents(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	d := runExample(t, "warning-events.yaml")

	event := func(name, kind, about string) string {
		return `{apiVersion: v1, kind: Event, metadata: {namespace: NS, name: ` + name + `}, type: ` + kind + `, reason: Why, ` +
			`message: It says why, involvedObject: {kind: ` + about + `, namespace: NS, name: web}}`
	}
	k.Create(event("normal", "Normal", "Pod"))
	k.Create(event("about-another-kind", "Warning", "ConfigMap"))
	warning := k.Create(event("warning", "Warning", "Pod"))
	k.Sees(d, "warning-events NS/warning added")
	k.Patch(warning, `count: 5`)
	k.Sees(d, "warning-events NS/warning updated")
	k.Delete(warning) // is no news
	k.Create(event("last", "Warning", "Pod"))

	k.Saw(d,
		`warning-events NS/warning added {"pod":"NS/web","reason":"Why","message":"It says why","times":1}`,
		`warning-events NS/warning updated {"pod":"NS/web","reason":"Why","message":"It says why","times":5}`,
		`warning-events NS/last added {"pod":"NS/web","reason":"Why","message":"It says why","times":1}`)
}

func TestExamplePodsFailed(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	d := runExample(t, "pods-failed.yaml")

	fail := `status: {phase: Failed, reason: Evicted, containerStatuses: [{name: main, image: nginx, imageID: "", ready: false, ` +
		`restartCount: 0, state: {terminated: {exitCode: 137}}}]}`
	web := k.Create(harness.Pod("web", "nginx"))
	web = k.Patch(web, `status: {phase: Running}`, "status")
	web = k.Patch(web, fail, "status")
	k.Patch(web, `metadata: {labels: {seen: by-someone}}`) // it has failed already
	k.Patch(k.Create(harness.Pod("fine", "nginx")), `status: {phase: Succeeded}`, "status")
	k.Patch(k.Create(harness.Pod("last", "nginx")), `status: {phase: Failed}`, "status")

	k.Saw(d,
		`pods-failed NS/web updated {"pod":"NS/web","node":null,"reason":"Evicted","exitCodes":[137]}`,
		`pods-failed NS/last updated {"pod":"NS/last","node":null,"reason":null,"exitCodes":null}`)
}

func TestExampleImages(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	d := runExample(t, "images.yaml")

	// The cache may be newer than the change, so each step waits for the one before.
	image, other := "registry.test/NS/web", "registry.test/NS/db"
	k.Create(harness.Pod("a", image))
	k.Sees(d, "images NS/a added")
	k.Create(harness.Pod("other", other))
	k.Sees(d, "images NS/other added")
	b := k.Create(harness.Pod("b", image))
	k.Sees(d, "images NS/b added")
	k.Delete(b)
	k.Create(harness.Pod("c", image))

	k.Saw(d,
		`images NS/a added {"pod":"NS/a","images":["`+image+`"],"sharedBy":["NS/a"]}`,
		`images NS/other added {"pod":"NS/other","images":["`+other+`"],"sharedBy":["NS/other"]}`,
		`images NS/b added {"pod":"NS/b","images":["`+image+`"],"sharedBy":["NS/a","NS/b"]}`,
		`images NS/c added {"pod":"NS/c","images":["`+image+`"],"sharedBy":["NS/a","NS/c"]}`)
}

func TestExampleZones(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	// Two sources have two watches, so what the rule looks up must be there first.
	node := k.Create(`{apiVersion: v1, kind: Node, metadata: {name: NS-node, labels: {topology.kubernetes.io/zone: north}}}`)
	d := runExample(t, "zones.yaml")

	k.Create(harness.PodOn("web", "NS-node"))
	k.Patch(k.Create(harness.PodOn("done", "NS-node")), `status: {phase: Succeeded}`, "status")
	k.Create(harness.Pod("pending", "nginx"))
	k.Create(harness.PodOn("elsewhere", "NS-other"))
	k.Sees(d, "pods-in-zones NS/elsewhere added")
	k.Patch(node, "spec: {unschedulable: true}\nmetadata: {labels: {topology.kubernetes.io/zone: south}}")
	k.Sees(d, "nodes-cordoned NS-node updated")
	k.Create(harness.PodOn("last", "NS-node"))

	k.Saw(d,
		`pods-in-zones NS/web added {"pod":"NS/web","zone":"north"}`,
		`pods-in-zones NS/done added {"pod":"NS/done","zone":"north"}`,
		`pods-in-zones NS/elsewhere added {"pod":"NS/elsewhere","zone":null}`,
		`nodes-cordoned NS-node updated {"node":"NS-node"}`,
		`pods-in-zones NS/last added {"pod":"NS/last","zone":"south"}`)
	for _, ev := range d.Events {
		if ev.Rule != "nodes-cordoned" || ev.Name != k.Ns+"-node" {
			continue
		}
		if pods := ev.Attached["pods"]; len(pods) != 1 || !strings.Contains(string(pods[0]), `"name":"web"`) {
			t.Errorf("attached are %s", pods)
		}
	}
}

func TestExampleSecretsRotated(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	d := runExample(t, "secrets-rotated.yaml")

	secret := func(name string) string {
		return `{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: ` + name + `}, type: Opaque, ` +
			`stringData: {user: admin, password: tiger-one, old: gone-soon}}`
	}
	db := k.Create(secret("db"))
	k.Patch(db, `metadata: {labels: {rotated: "no"}}`)
	k.Patch(db, `{"stringData": {"password": "tiger-two", "new": "fresh"}, "data": {"old": null}}`)
	k.Patch(k.Create(secret("last")), `stringData: {user: root}`)

	k.Saw(d,
		`secrets-rotated NS/db updated {"secret":"NS/db","type":"Opaque","changed":["new","old","password"]}`,
		`secrets-rotated NS/last updated {"secret":"NS/last","type":"Opaque","changed":["user"]}`)
	for _, data := range []string{"tiger", "dGlnZXI"} { // in base64
		if strings.Contains(strings.Join(d.Lines, "\n")+d.Log.String(), data) {
			t.Errorf("a secret's data got out: %q is in what was printed or logged", data)
		}
	}
}

func TestExampleNodesNotReady(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	node := k.Create(`{apiVersion: v1, kind: Node, metadata: {name: NS-there-before}}`)
	d := runExample(t, "nodes-not-ready.yaml", "--log-format", "json")

	heartbeat := func(status string) string {
		return `status: {conditions: [{type: Ready, status: "` + status + `", reason: Why}]}`
	}
	// The example's command prints its input, which goes to the log.
	sees := func(what string) {
		t.Helper()
		d.Until(what, func() bool { return slices.Contains(harness.Cut(k.Briefs(commandOutput(t, d.Log.String()))), what) })
	}
	sees("nodes-not-ready NS-there-before synced")
	k.Patch(node, heartbeat("True"), "status")  // becomes ready
	k.Patch(node, `metadata: {labels: {a: b}}`) // stays ready
	sees("nodes-not-ready NS-there-before deleted")
	k.Patch(node, heartbeat("Unknown"), "status")  // ceases to be
	k.Patch(node, `metadata: {labels: {a: null}}`) // stays not ready
	sees("nodes-not-ready NS-there-before added")
	k.Delete(node)
	k.Create(`{apiVersion: v1, kind: Node, metadata: {name: NS-last}, spec: {unschedulable: true}}`)

	sees("nodes-not-ready NS-last added")
	d.Stop()
	harness.Compare(t, []string{
		`nodes-not-ready NS-there-before synced {"node":"NS-there-before","ready":null,"reason":null,"unschedulable":false}`,
		`nodes-not-ready NS-there-before deleted {"node":"NS-there-before","ready":null,"reason":null,"unschedulable":false}`,
		`nodes-not-ready NS-there-before added {"node":"NS-there-before","ready":"Unknown","reason":"Why","unschedulable":false}`,
		`nodes-not-ready NS-there-before deleted {"node":"NS-there-before","ready":"Unknown","reason":"Why","unschedulable":false}`,
		`nodes-not-ready NS-last added {"node":"NS-last","ready":null,"reason":null,"unschedulable":true}`,
	}, k.Briefs(commandOutput(t, d.Logged())))
}

// commandOutput returns the events that exec's commands printed, from a log in JSON.
func commandOutput(t *testing.T, log string) (events []handler.Event) {
	t.Helper()
	for line := range strings.Lines(log) {
		var record struct{ Msg, Line string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Msg != "command output" {
			continue // or it has not come to its end
		}
		var ev handler.Event
		if err := json.Unmarshal([]byte(record.Line), &ev); err != nil {
			t.Errorf("a command printed what is no event: %v: %q", err, record.Line)
		}
		events = append(events, ev)
	}
	return events
}

func TestExampleDeploymentsUnavailable(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	d := runExample(t, "deployments-unavailable.yaml")

	deployment := func(name string) string {
		return `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: NS, name: ` + name + `, annotations: {deployment.kubernetes.io/revision: "7"}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: nginx}]}}`
	}
	web := k.Create(deployment("web"))
	for _, unavailable := range []string{"3", "2", "1", "0"} {
		k.Patch(web, `status: {unavailableReplicas: `+unavailable+`}`, "status")
	}
	d.Await("three events", func(events []handler.Event) bool { return len(k.Briefs(events)) >= 3 })
	k.Patch(k.Create(deployment("last")), `status: {unavailableReplicas: 1}`, "status")

	payload := func(name, unavailable string) string {
		return `{"deployment":"NS/` + name + `","unavailable":` + unavailable + `,"desired":3,"revision":"7"}`
	}
	k.Saw(d,
		`deployments-unavailable NS/web updated `+payload("web", "3"),
		`deployments-unavailable NS/web updated `+payload("web", "2"),
		`deployments-unavailable NS/web updated `+payload("web", "1"),
		`deployments-unavailable NS/last updated `+payload("last", "1"))
}
