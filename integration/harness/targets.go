package harness

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file is about what rules' own actions act on: namespaces, the copies in them, and the
// daemon's record of its actions.

// Each calls do with 0 to n-1, 16 at a time, and returns when all calls have ended.
func Each(n int, do func(i int)) {
	next := make(chan int)
	var callers sync.WaitGroup
	for range min(n, 16) {
		callers.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	callers.Wait()
}

// Namespaces makes n namespaces more, and returns their names: that of the test's own namespace,
// with -0, -1 and so on behind it. The label "of" has the name of the test's own namespace.
func (k *Kube) Namespaces(n int) (names []string) {
	k.t.Helper()
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", k.Ns, i))
	}
	Each(n, func(i int) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: names[i], Labels: map[string]string{"of": k.Ns},
		}}
		_, err := k.Typed.CoreV1().Namespaces().
			Create(k.t.Context(), namespace, metav1.CreateOptions{})
		if err != nil {
			k.t.Error(err)
		}
	})
	if k.t.Failed() {
		k.t.FailNow()
	}
	return names
}

// Copies returns the ConfigMaps of a name in the test's namespace, and in those whose names begin
// with that of the test's namespace and a dash.
func (k *Kube) Copies(name string) map[string]*corev1.ConfigMap {
	k.t.Helper()
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
	list, err := k.Typed.CoreV1().ConfigMaps("").List(k.t.Context(), options)
	if err != nil {
		k.t.Fatal(err)
	}
	copies := make(map[string]*corev1.ConfigMap)
	for i := range list.Items {
		m := &list.Items[i]
		if m.Namespace == k.Ns || strings.HasPrefix(m.Namespace, k.Ns+"-") {
			copies[m.Namespace] = m
		}
	}
	return copies
}

// HasCopies waits until each of the namespaces has a ConfigMap of the name with a value under a
// key.
func (k *Kube) HasCopies(name string, in []string, key, value string) {
	k.t.Helper()
	for _, namespace := range in {
		what := fmt.Sprintf("%s of %s/%s to be %q", key, namespace, name, value)
		k.Eventually(what, func() bool {
			m, err := k.Typed.CoreV1().ConfigMaps(namespace).
				Get(k.t.Context(), name, metav1.GetOptions{})
			return err == nil && m.Data[key] == value
		})
	}
}

// Quota sets how many ConfigMaps more a namespace may have, and waits until the API server applies
// that. This cluster has no controller that counts for a quota, so Quota writes its status as well.
func (k *Kube) Quota(namespace string, more int) {
	k.t.Helper()
	quotas := k.Typed.CoreV1().ResourceQuotas(namespace)
	limit := *resource.NewQuantity(int64(more), resource.DecimalSI)
	hard := corev1.ResourceList{"count/configmaps": limit}
	quota, err := quotas.Get(k.t.Context(), "configmaps", metav1.GetOptions{})
	if err != nil {
		quota = &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "configmaps"},
			Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		}
		quota, err = quotas.Create(k.t.Context(), quota, metav1.CreateOptions{})
	} else {
		quota.Spec.Hard = hard
		quota, err = quotas.Update(k.t.Context(), quota, metav1.UpdateOptions{})
	}
	if err != nil {
		k.t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{
		Hard: hard, Used: corev1.ResourceList{"count/configmaps": resource.MustParse("0")},
	}
	if _, err := quotas.UpdateStatus(k.t.Context(), quota, metav1.UpdateOptions{}); err != nil {
		k.t.Fatal(err)
	}
	k.Eventually("the quota to hold", func() bool {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
		options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := k.Typed.CoreV1().ConfigMaps(namespace).Create(k.t.Context(), probe, options)
		return (err == nil) == (more > 0)
	})
}

// Acted is one line of a daemon's log about an action.
type Acted struct {
	Rule, Verb, Namespace, Name, Result string
	ID                                  string // of the event
	Attempt                             int
}

// attribute matches one attribute of a line of the log.
var attribute = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*"|\S*)`)

// Acts returns the actions in a daemon's log, in order. The log has each action that succeeded or
// was refused for good. Of those that failed for now, it leaves out repetitions.
func Acts(log string) (acts []Acted) {
	for line := range strings.Lines(log) {
		if !strings.Contains(line, " msg=action ") {
			continue
		}
		values := make(map[string]string)
		for _, m := range attribute.FindAllStringSubmatch(line, -1) {
			value := m[2]
			if text, err := strconv.Unquote(value); err == nil {
				value = text
			}
			if _, has := values[m[1]]; !has {
				values[m[1]] = value
			}
		}
		attempt, _ := strconv.Atoi(values["attempt"])
		acts = append(acts, Acted{
			Rule: values["rule"], Verb: values["verb"], Namespace: values["namespace"],
			Name: values["name"], Result: values["result"], ID: values["id"], Attempt: attempt,
		})
	}
	return acts
}

// Actions returns how many of a rule's own actions have ended so with a verb.
func (d *Daemon) Actions(rule, verb, result string) (n int) {
	n, _ = strconv.Atoi(d.Metric(fmt.Sprintf(
		`informd_actions_total{handler="(actions)",result=%q,rule=%q,verb=%q}`, result, rule, verb)))
	return n
}
