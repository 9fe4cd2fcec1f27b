package integration

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
)

// The examples change a whole cluster, so they get one of their own.
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
			d := runInformd(t, c.Kubeconfig(), quickened(t), "--state-dir", shortDir(t))
			d.awaitReady()
			t.Run("zones", func(t *testing.T) { podsZones(t, c) })
			t.Run("jobs", func(t *testing.T) { jobsFinished(t, c) })
			t.Run("quarantine", func(t *testing.T) { podsQuarantined(t, c) })
			d.awaitDelivered()
			if n := d.metric("informd_dead_letters"); n != "0" {
				t.Errorf("%s dead letters", n)
			}
			d.stop()
		}},
		{"network policies", defaultNetworkPolicies},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

// A dry run says what would be done, and does nothing.
func dryActions(t *testing.T, c *cluster.Cluster) {
	k := newKube(t, c)
	d := runInformd(t, c.Kubeconfig(), automations, "--dry-run")
	d.awaitReady()
	k.create(`{apiVersion: v1, kind: Namespace, metadata: {name: NS-new}}`)
	k.create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: pull, labels: {example.com/copy: everywhere}}, stringData: {password: tiger}}`)
	d.until("what would be done", func() bool {
		log := d.log.String()
		return count(log, "would act", "rule=default-network-policy") == 1 && count(log, "would act", "rule=secrets-everywhere") > 0
	})
	d.stop()
	policies, err := k.typed.NetworkingV1().NetworkPolicies("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(policies.Items) != 0 {
		t.Errorf("%d policies were made, %v", len(policies.Items), err)
	}
	if _, err := k.typed.CoreV1().Secrets("default").Get(t.Context(), "pull", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret was copied: %v", err)
	}
	if strings.Contains(d.logged(), "tiger") || strings.Contains(d.logged(), "dGlnZXI") {
		t.Error("a Secret's data is in the log")
	}
	if err := k.typed.CoreV1().Secrets(k.ns).Delete(t.Context(), "pull", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// quickened is the folder of examples with a shorter resync.
func quickened(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	files, err := filepath.Glob(filepath.Join(automations, "*.yaml"))
	if err != nil || len(files) != 5 {
		t.Fatalf("there are %d examples, %v", len(files), err)
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
	k := newKube(t, c)
	state := newStateDir(t, c.Kubeconfig(), shortDir(t))
	file := filepath.Join(automations, "secrets-everywhere.yaml")
	one, _ := randomSecret()
	two, _ := randomSecret()
	// everywhere waits until all namespaces but the Secret's own have a copy with the data; with none if it is to be gone.
	everywhere := func(name, data string) {
		t.Helper()
		k.eventually(fmt.Sprintf("%s to be %q everywhere", name, data), func() bool {
			namespaces, err := k.typed.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, ns := range namespaces.Items {
				if ns.Name == k.ns || ns.Status.Phase != corev1.NamespaceActive {
					continue
				}
				secret, err := k.typed.CoreV1().Secrets(ns.Name).Get(t.Context(), name, metav1.GetOptions{})
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
		return k.create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: ` + name + `, labels: {example.com/copy: ` + label + `}}, ` +
			`type: example.com/password, stringData: {password: ` + one + `}}`)
	}
	there := secret("there", "everywhere")
	d := state.settled(file)
	everywhere("there", "password="+one)
	pull, plain := secret("pull", "everywhere"), secret("plain", "nowhere")
	everywhere("pull", "password="+one)
	copied, err := k.typed.CoreV1().Secrets("default").Get(t.Context(), "pull", metav1.GetOptions{})
	if err != nil || copied.Type != "example.com/password" || copied.Annotations["example.com/copied-from"] != k.ns+"/pull" {
		t.Errorf("the copy is %+v, %v", copied.ObjectMeta, err)
	}

	newKube(t, c) // makes a namespace
	everywhere("pull", "password="+one)
	k.patch(pull, `{"stringData": {"token": "`+two+`"}, "data": {"password": null}}`)
	everywhere("pull", "token="+two)
	everywhere("plain", "")
	k.patch(plain, `metadata: {labels: {example.com/copy: everywhere}}`)
	everywhere("plain", "password="+one)
	k.patch(plain, `metadata: {labels: {example.com/copy: nowhere}}`)
	everywhere("plain", "")
	k.delete(there)
	everywhere("there", "")

	d.awaitWritten()
	d.kill() // and meanwhile
	k.delete(pull)
	secret("meanwhile", "everywhere")
	newKube(t, c)
	d = state.settled(file)
	everywhere("pull", "")
	everywhere("meanwhile", "password="+one)
	d.awaitDelivered()
	if n := d.metric("informd_dead_letters"); n != "0" {
		t.Errorf("%s dead letters", n)
	}

	// Somebody else has one of that name in one of the namespaces.
	other := newKube(t, c)
	theirs := other.create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: same}, stringData: {password: theirs}}`)
	same := secret("same", "everywhere")
	isThere := func() bool {
		_, err := k.typed.CoreV1().Secrets("default").Get(t.Context(), "same", metav1.GetOptions{})
		return err == nil
	}
	k.eventually("a copy beside theirs", isThere)
	d.poll("a dead letter", func() bool { return d.metric("informd_dead_letters") == "1" })
	d.awaitLog("apply of v1/secrets " + other.ns + "/same: rejected")
	k.delete(same)
	k.eventually("the copy to be gone", func() bool { return !isThere() })
	d.awaitDelivered()
	if now, err := k.of(theirs).Get(t.Context(), "same", metav1.GetOptions{}); err != nil || now.GetResourceVersion() != theirs.GetResourceVersion() {
		t.Errorf("theirs is %v, %v", now, err)
	}
	d.stop()
	wantNotOnDisk(t, state.dir, []string{one, two})
	for _, text := range []string{one, two, base64.StdEncoding.EncodeToString([]byte(one)), base64.StdEncoding.EncodeToString([]byte(two))} {
		if strings.Contains(d.logged(), text) {
			t.Error("a Secret's data is in the log")
		}
	}
}

func podsZones(t *testing.T, c *cluster.Cluster) {
	k := newKube(t, c)
	node := func(name, labels string) *unstructured.Unstructured {
		return k.create(`{apiVersion: v1, kind: Node, metadata: {name: NS-` + name + `, labels: {` + labels + `}}}`)
	}
	zone := func(pod, want string) {
		t.Helper()
		k.eventually(pod+" in "+want, func() bool {
			pod, err := k.typed.CoreV1().Pods(k.ns).Get(t.Context(), pod, metav1.GetOptions{})
			return err == nil && pod.Annotations["example.com/zone"] == want
		})
	}
	north, bare := node("north", "topology.kubernetes.io/zone: north"), node("bare", "")
	k.create(podOn("web", "NS-north"))
	k.create(podOn("early", "NS-late"))
	k.create(podOn("bare", "NS-bare"))
	zone("web", "north")
	node("late", "topology.kubernetes.io/zone: south")
	zone("early", "south")
	zone("bare", "")
	k.patch(bare, `metadata: {labels: {topology.kubernetes.io/zone: west}}`)
	zone("bare", "west")
	k.patch(north, `metadata: {labels: {topology.kubernetes.io/zone: east}}`)
	zone("web", "east")
}

func jobsFinished(t *testing.T, c *cluster.Cluster) {
	k := newKube(t, c)
	job := func(name, annotations, spec string) *unstructured.Unstructured {
		return k.create(`{apiVersion: batch/v1, kind: Job, metadata: {namespace: NS, name: ` + name + `, annotations: {` + annotations + `}}, spec: {` + spec +
			`template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}}`)
	}
	finish := func(job *unstructured.Unstructured, ago time.Duration) {
		at := time.Now().Add(-ago).UTC().Format(time.RFC3339)
		conditions := ""
		for _, kind := range []string{"SuccessCriteriaMet", "Complete"} {
			conditions += `{type: ` + kind + `, status: "True", lastProbeTime: "` + at + `", lastTransitionTime: "` + at + `"}, `
		}
		k.patch(job, `status: {startTime: "`+at+`", completionTime: "`+at+`", succeeded: 1, conditions: [`+conditions+`]}`, "status")
	}
	there := func(name string) bool {
		_, err := k.typed.BatchV1().Jobs(k.ns).Get(t.Context(), name, metav1.GetOptions{})
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
	k.eventually("the old Job to be gone", func() bool { return !there("old") })
	k.eventually("its time to come", func() bool { return !there("soon") })
	for _, name := range []string{"running", "new", "limited"} {
		if !there(name) {
			t.Errorf("Job %s is gone", name)
		}
	}
}

func podsQuarantined(t *testing.T, c *cluster.Cluster) {
	k := newKube(t, c)
	list := func(name, images string) *unstructured.Unstructured {
		return k.create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: ` + name + `, labels: {example.com/images: quarantined}}, ` +
			`data: {list: "` + images + `"}}`)
	}
	labelled := func(want ...string) {
		t.Helper()
		k.eventually(fmt.Sprintf("quarantine of %q", want), func() bool {
			pods, err := k.typed.CoreV1().Pods(k.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "example.com/quarantine=yes"})
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
	k.create(pod("a", "NS/bad"))
	k.create(pod("b", "NS/worse"))
	k.create(pod("c", "NS/good"))
	bad := list("bad", `NS/bad\n`)
	labelled("a")
	worse := list("worse", `NS/none\n NS/bad\n NS/worse`)
	labelled("a", "b")
	k.create(pod("d", "NS/worse"))
	labelled("a", "b", "d")
	k.patch(worse, `data: {list: "NS/worse"}`)
	k.delete(bad)
	labelled("b", "d")
	k.patch(k.create(pod("e", "NS/good")), `spec: {containers: [{name: main, image: NS/worse}]}`)
	labelled("b", "d", "e")
	k.patch(worse, `data: {list: ""}`)
	labelled()
}

// 200 namespaces come while the daemon is killed three times: each has its policy in the end, and one that is let be is so.
func defaultNetworkPolicies(t *testing.T, c *cluster.Cluster) {
	const namespaces = 200
	k := newKube(t, c)
	state := newStateDir(t, c.Kubeconfig(), shortDir(t))
	file := filepath.Join(automations, "default-network-policy.yaml")
	d := state.settled(file)
	policies := func() map[string]bool {
		list, err := k.typed.NetworkingV1().NetworkPolicies("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		have := make(map[string]bool)
		for _, policy := range list.Items {
			if policy.Name == "default" && strings.HasPrefix(policy.Namespace, k.ns+"-") {
				have[policy.Namespace] = true
			}
		}
		return have
	}
	name := func(i int) string { return fmt.Sprintf("NS-%03d", i) }
	created := 0
	create := func(n int) {
		for range n {
			k.create(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + name(created) + `}}`)
			created++
		}
	}
	k.create(`{apiVersion: v1, kind: Namespace, metadata: {name: NS-open, labels: {example.com/network: open}}}`)
	for range 3 {
		had := len(policies())
		create(namespaces / 4)
		k.eventually("some of them to have a policy", func() bool { return len(policies()) > had+5 })
		d.kill()
		create(namespaces / 12) // while nobody looks
		d = state.run(file)
	}
	create(namespaces - created)
	k.eventually("all to have a policy", func() bool { return len(policies()) >= namespaces })
	have := policies()
	for i := range namespaces {
		if !have[k.text(name(i))] {
			t.Errorf("namespace %s has none", name(i))
		}
	}
	if have[k.ns+"-open"] {
		t.Error("a namespace has one that wants none")
	}
	// Whoever deletes it is not contradicted.
	first := k.text(name(0))
	if err := k.typed.NetworkingV1().NetworkPolicies(first).Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := k.typed.CoreV1().Namespaces().Patch(t.Context(), first, "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	k.create(`{apiVersion: v1, kind: Namespace, metadata: {name: NS-last}}`)
	k.eventually("the last", func() bool { return policies()[k.ns+"-last"] })
	d.awaitDelivered()
	if n := d.metric("informd_dead_letters"); n != "0" || policies()[first] {
		t.Errorf("%s dead letters; the one that was deleted is there again: %v", n, policies()[first])
	}
	d.stop()
}
