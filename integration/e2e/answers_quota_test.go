package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// A rule copies an object to three namespaces, and one of them has a full quota. Newer changes of the
// object reach the other two long before the next attempt that the failure causes. Once the quota is
// raised, the third gets what is newest.
func TestOneTargetWithAFullQuota(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k, well, full := harness.NewKube(t, c), harness.NewKube(t, c), harness.NewKube(t, c)
	setQuota(t, full, "0")
	dir := harness.ShortDir(t)
	d := harness.RunInformd(t, c.Kubeconfig(), k.Text(
		harness.Source("configmaps", harness.ConfigMaps+", labelSelector: copy=yes")+
			harness.Rule("copies", `source: configmaps, actions: [{forEach: 'split(object.data.to, ",")', `+
				`apply: {resource: v1/configmaps, object: {metadata: {namespace: "${item}", name: made}, data: {x: "${object.data.x}"}}}}]`)),
		"--state-dir", dir)
	d.AwaitReady()
	o := k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: o, labels: {copy: "yes"}}, ` +
		`data: {x: "0", to: "` + strings.Join([]string{full.Ns, "NS", well.Ns}, ",") + `"}}`)
	for _, healthy := range []*harness.Kube{k, well} {
		healthy.Has("made", "x", "0")
	}

	// until the next attempt is so far away that a change cannot happen to come with it
	k.Eventually("the delay to be long", func() bool {
		next, yields := nextAttempt(t, dir)
		return yields && time.Until(next) > 20*time.Second
	})
	for x := 1; x <= 5; x++ {
		next, _ := nextAttempt(t, dir)
		began := time.Now()
		k.Patch(o, fmt.Sprintf(`data: {x: "%d"}`, x))
		for _, healthy := range []*harness.Kube{k, well} {
			healthy.Has("made", "x", fmt.Sprint(x))
		}
		t.Logf("change %d arrived after %v, %v before the next attempt",
			x, time.Since(began).Round(time.Millisecond), time.Until(next).Round(time.Millisecond))
		if x == 1 && time.Now().After(next) {
			t.Errorf("change %d has waited for the attempt at %v", x, next)
		}
	}
	if _, err := full.ConfigMap("made"); err == nil {
		t.Fatal("the quota is not full")
	}
	_, says, _ := harness.Informd(t, "explain", "copies", k.Ns+"/o", "--state-dir", dir)
	if want := ", or when the object changes: "; !strings.Contains(says, want) || !strings.Contains(says, "exceeded quota") {
		t.Errorf("informd explain lacks %q:\n%s", want, says)
	}

	setQuota(t, full, "9")
	k.Eventually("the third copy", func() bool {
		if code, _, stderr := harness.Informd(t, "rule", "retry", "copies", "--state-dir", dir); code != 0 {
			t.Fatal(stderr)
		}
		made, err := full.ConfigMap("made")
		return err == nil && made.Data["x"] == "5"
	})
	if letters := d.Metric("informd_dead_letters"); letters != "0" && letters != "" {
		t.Errorf("%s dead letters", letters)
	}
}

// nextAttempt returns when the rule copies acts again for the object o, and whether a newer change of
// that comes earlier.
func nextAttempt(t *testing.T, dir string) (at time.Time, yields bool) {
	t.Helper()
	code, stdout, stderr := harness.Informd(t, "explain", "copies", "o", "-o", "json", "--state-dir", dir)
	if code != 0 {
		t.Fatal(stderr)
	}
	var says struct {
		Delivery struct {
			Retry         time.Time
			RetryOnChange bool
		}
	}
	if err := json.Unmarshal([]byte(stdout), &says); err != nil {
		t.Fatal(err, stdout)
	}
	return says.Delivery.Retry, says.Delivery.RetryOnChange
}

// setQuota sets how many ConfigMaps a namespace may have besides its own. Nobody else keeps the
// status of a quota here.
func setQuota(t *testing.T, k *harness.Kube, more string) {
	t.Helper()
	quotas := k.Typed.CoreV1().ResourceQuotas(k.Ns)
	hard := corev1.ResourceList{"count/configmaps": resource.MustParse(more)}
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	var err error
	if q, err = quotas.Create(t.Context(), q, metav1.CreateOptions{}); err != nil {
		if q, err = quotas.Get(t.Context(), "q", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		q.Spec.Hard = hard
		if q, err = quotas.Update(t.Context(), q, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	q.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{"count/configmaps": resource.MustParse("0")}}
	if _, err := quotas.UpdateStatus(t.Context(), q, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.Eventually("the quota to hold", func() bool {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
		_, err := k.Typed.CoreV1().ConfigMaps(k.Ns).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return (err == nil) == (more != "0")
	})
}
