package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/informd/informd/integration/cluster"
)

// limited is a kubeconfig for a user of the test's own, who may do nothing until it is allowed.
func (k *kube) limited(t *testing.T) string {
	t.Helper()
	return edited(t, func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) { a.Impersonate = k.ns })
}

// allow lets that user do something in the test's namespace: rules is a list of RBAC's rules.
func (k *kube) allow(name, rules string) {
	k.t.Helper()
	k.create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {namespace: NS, name: ` + name + `}, rules: ` + rules + `}`)
	k.create(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: NS, name: ` + name + `}, ` +
		`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ` + name + `}, ` +
		`subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: NS}]}`)
}

func (k *kube) configMap(name string) (*corev1.ConfigMap, error) {
	return k.typed.CoreV1().ConfigMaps(k.ns).Get(k.t.Context(), name, metav1.GetOptions{})
}

// has waits until a ConfigMap has a value; "" waits until it has none.
func (k *kube) has(name, key, value string) {
	k.t.Helper()
	k.eventually(fmt.Sprintf("%s of %s to be %q", key, name, value), func() bool {
		cm, err := k.configMap(name)
		return err == nil && cm.Data[key] == value
	})
}

// gone waits until a ConfigMap is.
func (k *kube) gone(name string) {
	k.t.Helper()
	k.eventually(name+" to be gone", func() bool {
		_, err := k.configMap(name)
		return apierrors.IsNotFound(err)
	})
}

// eventsOf are the cluster's Events about a ConfigMap.
func (k *kube) eventsOf(name string) []corev1.Event {
	k.t.Helper()
	list, err := k.typed.CoreV1().Events(k.ns).List(k.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		k.t.Fatal(err)
	}
	return list.Items
}

// acting is what a user needs whose informd watches ConfigMaps and does everything with them.
const acting = `[{apiGroups: [""], resources: [configmaps], verbs: ["*"]}, {apiGroups: ["", events.k8s.io], resources: [events], verbs: [create]}]`

const anyAction = `{resource: v1/configmaps, verbs: [apply, create, patch, delete, event]}`

// A handler without any right of its own changes the cluster by its answers: as far as its manifest and its daemon's user may.
func TestActions(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	kubeconfig, stage := k.limited(t), newTheater(t)
	k.allow("acting", acting)
	k.allow("starting", `[{apiGroups: [""], resources: [pods, pods/status], verbs: [get, patch]}]`)
	k.create(pod("web", "nginx"))
	k.create(configMap("doomed", "{}"))
	state := newStateDir(t, kubeconfig, shortDir(t))
	d := state.settled(k.text(source("configmaps", configMaps) +
		stage.puppet("access: {write: ["+anyAction+", {resource: v1/pods/status, verbs: [patch], namespaces: [NS], names: [w*]}, "+
			"{resource: v1/serviceaccounts, verbs: [create]}]}") +
		ruleFor("acts", "source: configmaps, where: object.data.actions != nil, handler: puppet")))

	const configMaps = `"Resource":{"version":"v1","resource":"configmaps"}`
	k.create(scripted("allowed", `[
		{"Verb":"create",`+configMaps+`,"Name":"made","Object":{"data":{"by":"${me}"}}},
		{"Verb":"apply",`+configMaps+`,"Name":"applied","Object":{"data":{"by":"${me}"}}},
		{"Verb":"patch","Patch":{"data":{"patched":"once"}}},
		{"Verb":"patch","PatchType":"application/json-patch+json","Patch":[{"op":"replace","path":"/data/patched","value":"twice"}]},
		{"Verb":"patch","Resource":{"version":"v1","resource":"pods"},"Name":"web","Subresource":"status","Patch":{"status":{"message":"${me}"}}},
		{"Verb":"delete",`+configMaps+`,"Name":"doomed"},
		{"Verb":"event","Reason":"Done","Message":"all of it, ${me}","Warning":true}]`, "me: hush-hush"))
	k.has("made", "by", "hush-hush")
	k.has("applied", "by", "hush-hush")
	k.has("allowed", "patched", "twice")
	k.gone("doomed")
	k.eventually("the Event", func() bool { return len(k.eventsOf("allowed")) > 0 })
	ev := k.eventsOf("allowed")[0]
	if ev.Type != "Warning" || ev.Reason != "Done" || ev.Message != "all of it, hush-hush" || ev.InvolvedObject.Kind != "ConfigMap" || ev.InvolvedObject.UID == "" {
		t.Errorf("the Event is %+v", ev)
	}
	web, err := k.typed.CoreV1().Pods(k.ns).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || web.Status.Message != "hush-hush" {
		t.Errorf("the Pod's status is %+v, %v", web.Status, err)
	}
	applied, err := k.configMap("applied")
	if err != nil || !slices.ContainsFunc(applied.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == "informd/acts" && f.Operation == metav1.ManagedFieldsOperationApply
	}) {
		t.Errorf("informd/acts applied none of %+v, %v", applied.ManagedFields, err)
	}
	d.awaitDelivered()
	for verb, n := range map[string]int{"create": 1, "apply": 1, "patch": 3, "delete": 1, "event": 1} {
		if got := count(d.logged(), "msg=action ", "rule=acts ", "handler=puppet ", "verb="+verb+" "); got != n {
			t.Errorf("%d lines of the log tell of %s, want %d", got, verb, n)
		}
	}
	if strings.Contains(d.logged(), "hush-hush") {
		t.Error("what was written is in the log")
	}

	// All of an answer is checked before the first is done.
	k.create(scripted("greedy", `[{"Verb":"patch","Patch":{"data":{"patched":"yes"}}},
		{"Verb":"delete","Resource":{"version":"v1","resource":"pods"},"Name":"web"}]`, ""))
	d.poll("a dead letter", func() bool { return d.metric("informd_dead_letters") == "1" })
	letter := state.command("dead", "list", "-o", "json")
	for _, want := range []string{`delete of v1/pods ` + k.ns + `/web is not allowed to handler \"puppet\"`, "spec.access.write needs {resource: v1/pods, verbs: [delete]"} {
		if !strings.Contains(letter, want) {
			t.Errorf("the dead letter does not say %q:\n%s", want, letter)
		}
	}
	if cm, err := k.configMap("greedy"); err != nil || cm.Data["patched"] != "" {
		t.Errorf("the first action was done though the second is not allowed: %v, %v", cm.Data, err)
	}

	// What the API server denies can be allowed any time.
	k.create(scripted("early", `[{"Verb":"create","Resource":{"version":"v1","resource":"serviceaccounts"},"Name":"robot","Object":{}}]`, ""))
	d.until("the denial in the log", func() bool {
		return count(d.log.String(), "msg=action ", "verb=create ", "resource=v1/serviceaccounts ", "result=failed ", "code=403 ") > 0
	})
	k.allow("late", `[{apiGroups: [""], resources: [serviceaccounts], verbs: [create]}]`)
	k.eventually("the account", func() bool {
		_, err := k.typed.CoreV1().ServiceAccounts(k.ns).Get(t.Context(), "robot", metav1.GetOptions{})
		return err == nil
	})
	d.awaitDelivered()
	if n := d.metric("informd_dead_letters"); n != "1" {
		t.Errorf("%s dead letters, want the one", n)
	}
	d.stop()
	if n := len(stage.told("allowed")); n != 1 {
		t.Errorf("the handler was told %d times of an object that only its own rule changed", n)
	}
}

// What changes between an event and its answer is not overwritten: the handler is asked again. What is gone, or another by
// that name, is left alone.
func TestActionsThatComeLate(t *testing.T) {
	t.Parallel()
	k := newKube(t, cluster.Shared(t))
	kubeconfig, stage := k.limited(t), newTheater(t)
	k.allow("acting", acting)
	d := runInformd(t, kubeconfig, k.text(source("configmaps", configMaps)+
		stage.puppet("concurrency: 8, access: {write: ["+anyAction+"]}")+
		ruleFor("acts", "source: configmaps, handler: puppet")))
	d.awaitReady()

	const copySize = `[{"Verb":"patch","Patch":{"data":{"copy":"${size}"}}}]`
	create := func(name string) func(patch string) {
		o := k.create(scripted(name, copySize, "hold: 'yes', size: '1'"))
		return func(patch string) {
			k.eventually(name+" to be with the handler", func() bool { return len(stage.told(name)) == 1 })
			if patch == "" {
				k.delete(o)
			} else {
				k.patch(o, patch)
			}
		}
	}
	changed, gone, replaced := create("changed"), create("gone"), create("replaced")
	changed("data: {size: '2', foreign: 'yes'}")
	stage.release("changed")
	k.has("changed", "copy", "2")
	k.has("changed", "foreign", "yes")

	gone("")
	stage.release("gone")
	k.eventually("the deletion to be told", func() bool { return slices.Contains(kinds(stage.told("gone")), "deleted") })

	replaced("")
	k.create(configMap("replaced", "{size: '3'}"))
	stage.release("replaced")
	k.eventually("the other object to be told", func() bool {
		all := stage.told("replaced")
		return all[len(all)-1].Data["size"] == "3"
	})
	d.awaitDelivered()
	if cm, err := k.configMap("replaced"); err != nil || cm.Data["copy"] != "" {
		t.Errorf("what was meant for another object was done to %v, %v", cm.Data, err)
	}
	if n := d.metric("informd_dead_letters"); n != "0" {
		t.Errorf("%s dead letters, want none", n)
	}
	d.stop()
	if n := count(d.logged(), "msg=action ", "name=changed ", "result=conflict"); n != 1 {
		t.Errorf("%d conflicts, want one", n)
	}
}

func kinds(all []cue) (events []string) {
	for _, what := range all {
		events = append(events, what.Event)
	}
	return events
}
