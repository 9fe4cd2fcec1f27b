package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// The examples change a whole cluster, so the test gets one of its own.
func TestExamplesWithActions(t *testing.T) {
	t.Parallel()
	c := cluster.New(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cluster.Cluster)
	}{
		{"dry", dryActions},
		{"secrets everywhere", secretsEverywhere},
		{"together", func(t *testing.T, c *cluster.Cluster) {
			rules := quickened(t)
			d := harness.RunInformd(t, harness.LeastRights(t, c, rules), rules, "--state-dir", harness.ShortDir(t))
			d.AwaitReady()
			t.Run("zones", func(t *testing.T) { podsZones(t, c) })
			t.Run("jobs", func(t *testing.T) { jobsFinished(t, c) })
			t.Run("reported", func(t *testing.T) { podsReported(t, c, d) })
			t.Run("quarantine", func(t *testing.T) { podsQuarantined(t, c) })
			d.AwaitDelivered()
			if n := d.Metric("informd_dead_letters"); n != "0" {
				t.Errorf("%s dead letters", n)
			}
			d.Stop()
		}},
		{"nodes", nodesCordoned},
		{"namespaces", namespacesUnowned},
		{"network policies", defaultNetworkPolicies},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

// A dry run reports actions and performs none.
func dryActions(t *testing.T, c *cluster.Cluster) {
	k := harness.NewKube(t, c)
	d := harness.RunInformd(t, c.Kubeconfig(), automations, "--dry-run")
	d.AwaitReady()
	k.Create(`{apiVersion: v1, kind: Namespace, metadata: {name: NS-new}}`)
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: pull, labels: {example.com/copy: everywhere}}, stringData: {password: tiger}}`)
	d.Until("what would be done", func() bool {
		log := d.Log.String()
		return harness.Count(log, "would act", "rule=default-network-policy") == 1 && harness.Count(log, "would act", "rule=secrets-everywhere") > 0
	})
	d.Stop()
	policies, err := k.Typed.NetworkingV1().NetworkPolicies("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(policies.Items) != 0 {
		t.Errorf("%d policies were made, %v", len(policies.Items), err)
	}
	if _, err := k.Typed.CoreV1().Secrets("default").Get(t.Context(), "pull", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret was copied: %v", err)
	}
	if strings.Contains(d.Logged(), "tiger") || strings.Contains(d.Logged(), "dGlnZXI") {
		t.Error("a Secret's data is in the log")
	}
	if err := k.Typed.CoreV1().Secrets(k.Ns).Delete(t.Context(), "pull", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// quickened returns a copy of the examples with a shorter resync.
func quickened(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	files := automationFiles(t)
	if len(files) != 9 {
		t.Fatalf("there are %d examples", len(files))
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		content = []byte(strings.ReplaceAll(string(content), "resync: 5m", "resync: 1s"))
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func secretsEverywhere(t *testing.T, c *cluster.Cluster) {
	k := harness.NewKube(t, c)
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	file := filepath.Join(automations, "secrets-everywhere.yaml")
	one, _ := harness.RandomSecret()
	two, _ := harness.RandomSecret()
	// everywhere waits until all namespaces but the Secret's own have a copy with the data, or no
	// copy if data is empty.
	everywhere := func(name, data string) {
		t.Helper()
		k.Eventually(fmt.Sprintf("%s to be %q everywhere", name, data), func() bool {
			namespaces, err := k.Typed.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, ns := range namespaces.Items {
				if ns.Name == k.Ns || ns.Status.Phase != corev1.NamespaceActive {
					continue
				}
				secret, err := k.Typed.CoreV1().Secrets(ns.Name).Get(t.Context(), name, metav1.GetOptions{})
				var got []string
				for key, value := range secret.Data {
					got = append(got, key+"="+string(value))
				}
				if (data == "") != apierrors.IsNotFound(err) || strings.Join(got, " ") != data {
					return false
				}
			}
			return true
		})
	}
	secret := func(name, label string) *unstructured.Unstructured {
		return k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: ` + name + `, labels: {example.com/copy: ` + label + `}}, ` +
			`type: example.com/password, stringData: {password: ` + one + `}}`)
	}
	there := secret("there", "everywhere")
	d := state.Settled(file)
	everywhere("there", "password="+one)
	pull, plain := secret("pull", "everywhere"), secret("plain", "nowhere")
	everywhere("pull", "password="+one)
	copied, err := k.Typed.CoreV1().Secrets("default").Get(t.Context(), "pull", metav1.GetOptions{})
	if err != nil || copied.Type != "example.com/password" || copied.Annotations["example.com/copied-from"] != k.Ns+"/pull" {
		t.Errorf("the copy is %+v, %v", copied.ObjectMeta, err)
	}

	harness.NewKube(t, c) // makes a namespace
	everywhere("pull", "password="+one)
	k.Patch(pull, `{"stringData": {"token": "`+two+`"}, "data": {"password": null}}`)
	everywhere("pull", "token="+two)
	everywhere("plain", "")
	k.Patch(plain, `metadata: {labels: {example.com/copy: everywhere}}`)
	everywhere("plain", "password="+one)
	k.Patch(plain, `metadata: {labels: {example.com/copy: nowhere}}`)
	everywhere("plain", "")
	k.Delete(there)
	everywhere("there", "")

	d.AwaitWritten()
	d.Kill() // and meanwhile
	k.Delete(pull)
	secret("meanwhile", "everywhere")
	harness.NewKube(t, c)
	d = state.Settled(file)
	everywhere("pull", "")
	everywhere("meanwhile", "password="+one)
	d.AwaitDelivered()
	if n := d.Metric("informd_dead_letters"); n != "0" {
		t.Errorf("%s dead letters", n)
	}

	// In one of the namespaces, somebody else has a Secret of that name.
	other := harness.NewKube(t, c)
	theirs := other.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: same}, stringData: {password: theirs}}`)
	same := secret("same", "everywhere")
	isThere := func() bool {
		_, err := k.Typed.CoreV1().Secrets("default").Get(t.Context(), "same", metav1.GetOptions{})
		return err == nil
	}
	k.Eventually("a copy beside theirs", isThere)
	d.Poll("a dead letter", func() bool { return d.Metric("informd_dead_letters") == "1" })
	d.AwaitLog("apply of v1/secrets " + other.Ns + "/same: rejected")
	k.Delete(same)
	k.Eventually("the copy to be gone", func() bool { return !isThere() })
	d.AwaitDelivered()
	if now, err := k.Resource(theirs).Get(t.Context(), "same", metav1.GetOptions{}); err != nil || now.GetResourceVersion() != theirs.GetResourceVersion() {
		t.Errorf("theirs is %v, %v", now, err)
	}
	d.Stop()
	harness.WantNotOnDisk(t, state.Dir, []string{one, two})
	for _, text := range []string{one, two, base64.StdEncoding.EncodeToString([]byte(one)), base64.StdEncoding.EncodeToString([]byte(two))} {
		if strings.Contains(d.Logged(), text) {
			t.Error("a Secret's data is in the log")
		}
	}
}

func podsReported(t *testing.T, c *cluster.Cluster, d *harness.Daemon) {
	k := harness.NewKube(t, c)
	k.Create(harness.Pod("broken", "busybox"))
	broken, err := k.Typed.CoreV1().Pods(k.Ns).Get(t.Context(), "broken", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	broken.Status.Phase, broken.Status.Reason = corev1.PodFailed, "Evicted"
	if _, err := k.Typed.CoreV1().Pods(k.Ns).UpdateStatus(t.Context(), broken, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.Sees(d, "pods-reported NS/broken updated")
	k.Eventually("the mark", func() bool {
		broken, err := k.Typed.CoreV1().Pods(k.Ns).Get(t.Context(), "broken", metav1.GetOptions{})
		return err == nil && broken.Annotations["example.com/reported"] == "yes"
	})
}

func podsZones(t *testing.T, c *cluster.Cluster) {
	k := harness.NewKube(t, c)
	node := func(name, labels string) *unstructured.Unstructured {
		return k.Create(`{apiVersion: v1, kind: Node, metadata: {name: NS-` + name + `, labels: {` + labels + `}}}`)
	}
	zone := func(pod, want string) {
		t.Helper()
		k.Eventually(pod+" in "+want, func() bool {
			pod, err := k.Typed.CoreV1().Pods(k.Ns).Get(t.Context(), pod, metav1.GetOptions{})
			return err == nil && pod.Annotations["example.com/zone"] == want
		})
	}
	north, bare := node("north", "topology.kubernetes.io/zone: north"), node("bare", "")
	k.Create(harness.PodOn("web", "NS-north"))
	k.Create(harness.PodOn("early", "NS-late"))
	k.Create(harness.PodOn("bare", "NS-bare"))
	zone("web", "north")
	node("late", "topology.kubernetes.io/zone: south")
	zone("early", "south")
	zone("bare", "")
	k.Patch(bare, `metadata: {labels: {topology.kubernetes.io/zone: west}}`)
	zone("bare", "west")
	k.Patch(north, `metadata: {labels: {topology.kubernetes.io/zone: east}}`)
	zone("web", "east")
}

func jobsFinished(t *testing.T, c *cluster.Cluster) {
	k := harness.NewKube(t, c)
	job := func(name, annotations, spec string) *unstructured.Unstructured {
		return k.Create(`{apiVersion: batch/v1, kind: Job, metadata: {namespace: NS, name: ` + name + `, annotations: {` + annotations + `}}, spec: {` + spec +
			`template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}}`)
	}
	finish := func(job *unstructured.Unstructured, ago time.Duration) {
		at := time.Now().Add(-ago).UTC().Format(time.RFC3339)
		conditions := ""
		for _, kind := range []string{"SuccessCriteriaMet", "Complete"} {
			conditions += `{type: ` + kind + `, status: "True", lastProbeTime: "` + at + `", lastTransitionTime: "` + at + `"}, `
		}
		k.Patch(job, `status: {startTime: "`+at+`", completionTime: "`+at+`", succeeded: 1, conditions: [`+conditions+`]}`, "status")
	}
	there := func(name string) bool {
		_, err := k.Typed.BatchV1().Jobs(k.Ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	job("running", `example.com/keep-for: 0s`, "")
	finish(job("new", "", ""), time.Minute)
	finish(job("limited", "", "ttlSecondsAfterFinished: 7, "), 48*time.Hour)
	soon := job("soon", `example.com/keep-for: 3s`, "")
	finish(soon, 0)
	finish(job("old", "", ""), 48*time.Hour)
	k.Eventually("the old Job to be gone", func() bool { return !there("old") })
	k.Eventually("its time to come", func() bool { return !there("soon") })
	for _, name := range []string{"running", "new", "limited"} {
		if !there(name) {
			t.Errorf("Job %s is gone", name)
		}
	}
}

func podsQuarantined(t *testing.T, c *cluster.Cluster) {
	k := harness.NewKube(t, c)
	list := func(name, images string) *unstructured.Unstructured {
		return k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: ` + name + `, labels: {example.com/images: quarantined}}, ` +
			`data: {list: "` + images + `"}}`)
	}
	labelled := func(want ...string) {
		t.Helper()
		k.Eventually(fmt.Sprintf("quarantine of %q", want), func() bool {
			pods, err := k.Typed.CoreV1().Pods(k.Ns).List(t.Context(), metav1.ListOptions{LabelSelector: "example.com/quarantine=yes"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, pod := range pods.Items {
				got = append(got, pod.Name)
			}
			return strings.Join(got, " ") == strings.Join(want, " ")
		})
	}
	k.Create(harness.Pod("a", "NS/bad"))
	k.Create(harness.Pod("b", "NS/worse"))
	k.Create(harness.Pod("c", "NS/good"))
	bad := list("bad", `NS/bad\n`)
	labelled("a")
	worse := list("worse", `NS/none\n NS/bad\n NS/worse`)
	labelled("a", "b")
	k.Create(harness.Pod("d", "NS/worse"))
	labelled("a", "b", "d")
	k.Patch(worse, `data: {list: "NS/worse"}`)
	k.Delete(bad)
	labelled("b", "d")
	k.Patch(k.Create(harness.Pod("e", "NS/good")), `spec: {containers: [{name: main, image: NS/worse}]}`)
	labelled("b", "d", "e")
	k.Patch(worse, `data: {list: ""}`)
	labelled()
}

// 200 namespaces appear while the test kills the daemon three times. In the end each has its
// policy, except one with an opt-out.
func defaultNetworkPolicies(t *testing.T, c *cluster.Cluster) {
	const namespaces = 200
	k := harness.NewKube(t, c)
	state := harness.NewStateDir(t, c.Kubeconfig(), harness.ShortDir(t))
	file := filepath.Join(automations, "default-network-policy.yaml")
	d := state.Settled(file)
	policies := func() map[string]bool {
		list, err := k.Typed.NetworkingV1().NetworkPolicies("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		have := make(map[string]bool)
		for _, policy := range list.Items {
			if policy.Name == "default" && strings.HasPrefix(policy.Namespace, k.Ns+"-") {
				have[policy.Namespace] = true
			}
		}
		return have
	}
	name := func(i int) string { return fmt.Sprintf("NS-%03d", i) }
	created := 0
	create := func(n int) {
		for range n {
			k.Create(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + name(created) + `}}`)
			created++
		}
	}
	k.Create(`{apiVersion: v1, kind: Namespace, metadata: {name: NS-open, labels: {example.com/network: open}}}`)
	for range 3 {
		had := len(policies())
		create(namespaces / 4)
		k.Eventually("some of them to have a policy", func() bool { return len(policies()) > had+5 })
		d.Kill()
		create(namespaces / 12) // while informd is away
		d = state.Run(file)
	}
	create(namespaces - created)
	k.Eventually("all to have a policy", func() bool { return len(policies()) >= namespaces })
	have := policies()
	for i := range namespaces {
		if !have[k.Text(name(i))] {
			t.Errorf("namespace %s has none", name(i))
		}
	}
	if have[k.Ns+"-open"] {
		t.Error("a namespace has one that wants none")
	}
	// If somebody deletes it, informd does not make it again.
	first := k.Text(name(0))
	if err := k.Typed.NetworkingV1().NetworkPolicies(first).Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := k.Typed.CoreV1().Namespaces().Patch(t.Context(), first, "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	k.Create(`{apiVersion: v1, kind: Namespace, metadata: {name: NS-last}}`)
	k.Eventually("the last", func() bool { return policies()[k.Ns+"-last"] })
	d.AwaitDelivered()
	if n := d.Metric("informd_dead_letters"); n != "0" || policies()[first] {
		t.Errorf("%s dead letters; the one that was deleted is there again: %v", n, policies()[first])
	}
	d.Stop()
}
