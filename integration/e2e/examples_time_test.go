package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// hastened returns a copy of an example in which each first text of replace has become the second.
// So a rule that takes minutes takes seconds. The real times are those of the example's Tests.
func hastened(t *testing.T, file string, replace ...string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if strings.Count(string(content), replace[i]) != 1 {
			t.Fatalf("%s does not have %q once", file, replace[i])
		}
	}
	text := strings.NewReplacer(replace...).Replace(string(content))
	return harness.WriteFile(t, filepath.Base(file), text)
}

// lasting is an example that tells what lasts, or is due, and when that is over.
type lasting struct {
	replace []string
	define  string                    // a CustomResourceDefinition that it needs
	begin   func(t *testing.T) string // the manifest of an object NAME that the rule will tell of
	end     string                    // a patch that ends that
	status  bool                      // the patch is one of the status
}

func always(manifest string) func(*testing.T) string {
	return func(*testing.T) string { return manifest }
}

// soon is when something becomes due that waits for a while.
func soon() time.Time { return time.Now().Add(2 * time.Second).UTC() }

var allThatLast = map[string]lasting{
	"pods-pending": {
		replace: []string{"for: 5m", "for: 2s"},
		begin:   always(harness.Pod("NAME", "nginx")),
		end:     `status: {phase: Running}`, status: true,
	},
	"claims-unbound": {
		replace: []string{"for: 10m", "for: 2s"},
		begin: always(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: NS, name: NAME}, ` +
			`spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`),
		end: `status: {phase: Bound}`, status: true,
	},
	"rollouts-stuck": {
		replace: []string{"for: 15m", "for: 2s"},
		begin: always(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: NS, name: NAME}, spec: {replicas: 3, ` +
			`selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: nginx}]}}}}`),
		end: `status: {replicas: 3, updatedReplicas: 3}`, status: true,
	},
	"leases-missed": {
		replace: []string{`duration("2m")`, `duration("2s")`},
		begin: func(*testing.T) string {
			return `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: NS, name: NAME}, ` +
				`spec: {holderIdentity: me, renewTime: "` + time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") + `"}}`
		},
		end: `spec: {renewTime: "2100-01-01T00:00:00.000000Z"}`, // for longer than the test takes
	},
	"certificates": {
		begin: func(t *testing.T) string {
			return `{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: NAME}, type: kubernetes.io/tls, ` +
				`data: {tls.key: AAAA, tls.crt: ` + certificate(t, soon().Add(14*24*time.Hour)) + `}}`
		},
		end: `data: {tls.crt: ""}`, // one that is to be issued
	},
	"cert-manager": {
		define: `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {plural: certificates, singular: certificate, kind: Certificate}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`,
		begin: func(*testing.T) string {
			return `{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {namespace: NS, name: NAME}, ` +
				`status: {notAfter: "` + soon().Add(14*24*time.Hour).Format(time.RFC3339) + `"}}`
		},
		end: `status: {notAfter: "2100-01-01T00:00:00Z"}`,
	},
}

// Each example tells what lasts, and its end. A kill -9 loses neither, and tells neither twice with
// another id.
func TestExamplesThatTellWhatLasts(t *testing.T) {
	t.Parallel()
	for name, example := range allThatLast {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := harness.NewKube(t, cluster.Shared(t))
			if example.define != "" {
				k.DefineWith(example.define)
			}
			begin := func(name string) *unstructured.Unstructured {
				return k.Create(strings.ReplaceAll(example.begin(t), "NAME", name))
			}
			end := func(o *unstructured.Unstructured) {
				if example.status {
					k.Patch(o, example.end, "status")
				} else {
					k.Patch(o, example.end)
				}
			}
			file := hastened(t, filepath.Join(rules, name+".yaml"), example.replace...)
			state := harness.NewStateDir(t, cluster.Shared(t).Kubeconfig(), harness.ShortDir(t))
			d := state.Settled(file)
			web := begin("web")
			k.Sees(d, name+" NS/web added")
			end(web)
			k.Sees(d, name+" NS/web deleted")
			told := begin("told")
			k.Sees(d, name+" NS/told added")
			waits := begin("waits")
			d.AwaitWritten()
			d.Kill()
			first := d.Events // may have what waits, if the machine is slow
			end(told)
			d = state.Run(file)
			d.Until("what waits to be told", func() bool {
				return slices.Contains(harness.Cut(k.Briefs(append(slices.Clone(first), d.Events...))), name+" NS/waits added")
			})
			end(waits)
			k.Sees(d, name+" NS/waits deleted")
			k.Sees(d, name+" NS/told deleted")
			d.AwaitDelivered()
			d.Stop()
			var events []handler.Event
			for _, ev := range append(first, d.Events...) {
				if !slices.ContainsFunc(events, func(e handler.Event) bool { return e.ID == ev.ID }) {
					events = append(events, ev)
				}
			}
			harness.Compare(t, []string{
				name + " NS/web added", name + " NS/web deleted", name + " NS/told added", name + " NS/told deleted",
				name + " NS/waits added", name + " NS/waits deleted",
			}, harness.Cut(k.Briefs(events)))
		})
	}
}

// certificate returns a certificate that ends then, as a Secret has it. It contains no NS and no
// NAME, which would be replaced.
func certificate(t *testing.T, end time.Time) string {
	t.Helper()
	for {
		if text := newCertificate(t, end); !strings.Contains(text, "NS") && !strings.Contains(text, "NAME") {
			return text
		}
	}
}

func newCertificate(t *testing.T, end time.Time) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// A node that is not ready for long enough is cordoned and labelled, also if informd is killed while
// it waits.
func nodesCordoned(t *testing.T, c *cluster.Cluster) {
	k := harness.NewKube(t, c)
	file := hastened(t, filepath.Join(automations, "nodes-lost.yaml"), "for: 10m", "for: 2s",
		`? "ready" : "lost"`, `? "ready" : object.metadata.name startsWith "`+k.Ns+`-" ? "lost" : nil`) // other tests' nodes do not count
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	cordoned := func(name string) bool {
		node, err := k.Typed.CoreV1().Nodes().Get(t.Context(), k.Text(name), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		isLabelled := node.Labels["example.com/cordoned-by"] == "informd"
		if isLabelled != node.Spec.Unschedulable {
			t.Errorf("node %s is cordoned: %v, and labelled: %v", name, node.Spec.Unschedulable, isLabelled)
		}
		return isLabelled
	}
	node := func(name, ready string) *unstructured.Unstructured {
		return k.Create(`{apiVersion: v1, kind: Node, metadata: {name: NS-` + name + `}, status: {conditions: [{type: Ready, status: "` + ready + `"}]}}`)
	}
	node("good", "True")
	for i := range 6 { // so many that three lost ones are not too many
		node(fmt.Sprint("fine-", i), "True")
	}
	d := state.Settled(file)
	node("bad", "Unknown")
	k.Eventually("the node to be cordoned", func() bool { return cordoned("NS-bad") })
	turns := node("turns", "True")
	k.Patch(turns, nodeReady("False"), "status")
	d.AwaitWritten()
	d.Kill()
	d = state.Run(file)
	k.Eventually("the other node to be cordoned", func() bool { return cordoned("NS-turns") })
	// What a person undoes stays so.
	k.Patch(turns, "metadata: {labels: {example.com/cordoned-by: null}}\nspec: {unschedulable: null}")
	node("last", "False")
	k.Eventually("the last node to be cordoned", func() bool { return cordoned("NS-last") })
	d.AwaitDelivered()
	if cordoned("NS-good") || cordoned("NS-turns") {
		t.Error("another node is cordoned, too")
	}
	if n := d.Metric("informd_dead_letters"); n != "0" {
		t.Errorf("%s dead letters", n)
	}
	d.Stop()
}

// A sandbox without an owner is deleted in the end, also if informd is killed while it waits. One with
// an owner is not, and neither is another namespace.
func namespacesUnowned(t *testing.T, c *cluster.Cluster) {
	k := harness.NewKube(t, c)
	file := hastened(t, filepath.Join(automations, "namespaces-unowned.yaml"), "for: 24h", "for: 2s")
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	const sandbox = `example.com/sandbox: "yes"`
	isGoing := func(name string) bool {
		ns, err := k.Typed.CoreV1().Namespaces().Get(t.Context(), k.Text(name), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err != nil || ns.Status.Phase == corev1.NamespaceTerminating
	}
	namespace := func(name, labels string) *unstructured.Unstructured {
		return k.Create(`{apiVersion: v1, kind: Namespace, metadata: {name: NS-` + name + `, labels: {` + labels + `}}}`)
	}
	d := state.Settled(file)
	namespace("system", "team: platform")
	namespace("owned", sandbox+", owner: me")
	namespace("sandbox", sandbox+", team: web")
	k.Eventually("the namespace to be deleted", func() bool { return isGoing("NS-sandbox") })
	namespace("waits", sandbox)
	d.AwaitWritten()
	d.Kill()
	d = state.Run(file)
	k.Eventually("the namespace that waited to be deleted", func() bool { return isGoing("NS-waits") })
	namespace("last", sandbox)
	k.Eventually("the last namespace to be deleted", func() bool { return isGoing("NS-last") })
	d.AwaitDelivered()
	if isGoing("NS-owned") || isGoing("NS-system") {
		t.Error("a namespace with an owner, or one that is no sandbox, is deleted")
	}
	if n := d.Metric("informd_dead_letters"); n != "0" {
		t.Errorf("%s dead letters", n)
	}
	d.Stop()
}

// Pods of a registry come in one event, and a kill -9 loses none of them.
func TestExampleImagesNotPulled(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	file := hastened(t, filepath.Join(rules, "images-not-pulled.yaml"), "wait: 30s", "wait: 2s", "every: 10m", "every: 3s")
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	fails := func(name, image string) {
		pod := k.Create(harness.Pod(name, image))
		k.Patch(pod, `status: {containerStatuses: [{name: main, image: "`+image+`", imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: ErrImagePull}}}]}`, "status")
	}
	var events []handler.Event
	// groups returns the Pods of each event of this test, by their registries and in the order of names.
	told := func(d *harness.Daemon) (groups map[string][]string) {
		groups = make(map[string][]string)
		for _, ev := range append(slices.Clone(events), d.Events...) {
			for _, item := range ev.Items {
				var payload struct{ Images []string }
				if err := json.Unmarshal(item.Payload, &payload); err != nil || len(payload.Images) != 1 {
					t.Fatalf("item %+v: %v", item, err)
				}
				registry, _, _ := strings.Cut(payload.Images[0], "/")
				if item.Namespace == k.Ns && !slices.Contains(groups[registry], item.Name) {
					groups[registry] = append(groups[registry], item.Name)
				}
			}
		}
		for _, names := range groups {
			slices.Sort(names)
		}
		return groups
	}
	await := func(d *harness.Daemon, registry string, names ...string) {
		d.Until("Pods of "+registry, func() bool { return slices.Equal(told(d)[registry], names) })
	}
	d := state.Settled(file)
	fails("web", "one.example/web:1")
	fails("api", "one.example/api:1")
	fails("db", "two.example/db:1")
	await(d, "one.example", "api", "web")
	await(d, "two.example", "db")
	fails("late", "one.example/late:1")
	fails("last", "one.example/last:1")
	d.AwaitWritten()
	d.Kill()
	events = append(events, d.Events...)
	d = state.Run(file)
	await(d, "one.example", "api", "last", "late", "web")
	d.AwaitDelivered()
	d.Stop()
	for _, ev := range append(events, d.Events...) {
		if len(ev.Items) == 0 || ev.Items[len(ev.Items)-1].ID != ev.ID {
			t.Errorf("event %s has items %+v", ev.ID, ev.Items)
		}
	}
}

// A finished Job that is old enough is deleted at the start, and at each moment of the schedule.
func TestExampleJobsNightly(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	file := hastened(t, filepath.Join(automations, "jobs-nightly.yaml"), `"0 3 * * *"`, `"* * * * *"`)
	finished := func(name string, ago time.Duration) {
		job := k.Create(`{apiVersion: batch/v1, kind: Job, metadata: {namespace: NS, name: ` + name + `}, ` +
			`spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}}`)
		at := time.Now().Add(-ago).UTC().Format(time.RFC3339)
		conditions := ""
		for _, kind := range []string{"SuccessCriteriaMet", "Complete"} {
			conditions += `{type: ` + kind + `, status: "True", lastProbeTime: "` + at + `", lastTransitionTime: "` + at + `"}, `
		}
		k.Patch(job, `status: {startTime: "`+at+`", completionTime: "`+at+`", succeeded: 1, conditions: [`+conditions+`]}`, "status")
	}
	isThere := func(name string) bool {
		_, err := k.Typed.BatchV1().Jobs(k.Ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	finished("old", 169*time.Hour)
	finished("new", 167*time.Hour)
	d := harness.RunInformd(t, c.Kubeconfig(), file, "--state-dir", harness.ShortDir(t))
	k.Eventually("the old Job to be gone", func() bool { return !isThere("old") })
	finished("later", 169*time.Hour)
	k.Eventually("a minute to be over", func() bool { return !isThere("later") })
	if !isThere("new") {
		t.Error("a Job is gone before its time")
	}
	d.AwaitDelivered()
	d.Stop()
}

// The third failed Job of an owner is delivered, also if informd is killed between the failures;
// those before and after it are not.
func TestExampleJobsFailing(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	file := filepath.Join(rules, "jobs-failing.yaml")
	fail := func(name, owner string) {
		job := k.Create(`{apiVersion: batch/v1, kind: Job, metadata: {namespace: NS, name: ` + name + `, ` +
			`ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: ` + owner + `, uid: NS-` + owner + `}]}, ` +
			`spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}}`)
		at := time.Now().UTC().Format(time.RFC3339)
		conditions := ""
		for _, kind := range []string{"FailureTarget", "Failed"} {
			conditions += `{type: ` + kind + `, status: "True", reason: BackoffLimitExceeded, lastProbeTime: "` + at + `", lastTransitionTime: "` + at + `"}, `
		}
		k.Patch(job, `status: {startTime: "`+at+`", failed: 1, conditions: [`+conditions+`]}`, "status")
	}
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	d := state.Settled(file)
	fail("backup-1", "backup")
	fail("report-1", "report")
	fail("backup-2", "backup")
	k.Eventually("two windows with changes", func() bool {
		return d.Metric(`informd_rule_windows{rule="jobs-failing"}`) == "2" && d.Metric(`informd_rule_matches_total{rule="jobs-failing"}`) == "3"
	})
	d.AwaitWritten()
	d.Kill()
	d = state.Run(file)
	fail("backup-3", "backup")
	k.Sees(d, "jobs-failing NS/backup-3 added")
	fail("backup-4", "backup")
	fail("backup-5", "backup")
	fail("report-2", "report")
	fail("report-3", "report")
	k.Sees(d, "jobs-failing NS/report-3 added")
	d.AwaitDelivered()
	d.Stop()
	harness.Compare(t, []string{"jobs-failing NS/backup-3 added", "jobs-failing NS/report-3 added"}, harness.Cut(k.Briefs(d.Events)))
}
