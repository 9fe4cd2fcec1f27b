package e2e

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// acting holds the RBAC rules for an informd that watches ConfigMaps and performs every action on
// them.
const acting = `[{apiGroups: [""], resources: [configmaps], verbs: ["*"]}, {apiGroups: ["", events.k8s.io], resources: [events], verbs: [create]}]`

const anyAction = `{resource: v1/configmaps, verbs: [apply, create, patch, delete, event]}`

// A handler without rights of its own changes the cluster by its answers, within the limits of its
// manifest and of the daemon's user.
func TestActions(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	kubeconfig, stage := k.Limited(t), newTheater(t)
	k.Allow("acting", acting)
	k.Allow("starting", `[{apiGroups: [""], resources: [pods, pods/status], verbs: [get, patch]}]`)
	k.Create(harness.Pod("web", "nginx"))
	k.Create(harness.ConfigMap("doomed", "{}"))
	state := harness.NewStateDir(t, kubeconfig, harness.ShortDir(t))
	d := state.Settled(k.Text(harness.Source("configmaps", harness.ConfigMaps) +
		stage.puppet("access: {write: ["+anyAction+", {resource: v1/pods/status, verbs: [patch], namespaces: [NS], names: [w*]}, "+
			"{resource: v1/serviceaccounts, verbs: [create]}]}") +
		harness.Rule("acts", "source: configmaps, where: object.data.actions != nil, handler: puppet")))

	const configMaps = `"Resource":{"version":"v1","resource":"configmaps"}`
	k.Create(scripted("allowed", `[
		{"Verb":"create",`+configMaps+`,"Name":"made","Object":{"data":{"by":"${me}"}}},
		{"Verb":"apply",`+configMaps+`,"Name":"applied","Object":{"data":{"by":"${me}"}}},
		{"Verb":"patch","Patch":{"data":{"patched":"once"}}},
		{"Verb":"patch","PatchType":"application/json-patch+json","Patch":[{"op":"replace","path":"/data/patched","value":"twice"}]},
		{"Verb":"patch","Resource":{"version":"v1","resource":"pods"},"Name":"web","Subresource":"status","Patch":{"status":{"message":"${me}"}}},
		{"Verb":"delete",`+configMaps+`,"Name":"doomed"},
		{"Verb":"event","Reason":"Done","Message":"all of it, ${me}","Warning":true}]`, "me: hush-hush"))
	k.Has("made", "by", "hush-hush")
	k.Has("applied", "by", "hush-hush")
	k.Has("allowed", "patched", "twice")
	k.Gone("doomed")
	k.Eventually("the Event", func() bool { return len(k.EventsOf("allowed")) > 0 })
	ev := k.EventsOf("allowed")[0]
	if ev.Type != "Warning" || ev.Reason != "Done" || ev.Message != "all of it, hush-hush" || ev.InvolvedObject.Kind != "ConfigMap" || ev.InvolvedObject.UID == "" {
		t.Errorf("the Event is %+v", ev)
	}
	web, err := k.Typed.CoreV1().Pods(k.Ns).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || web.Status.Message != "hush-hush" {
		t.Errorf("the Pod's status is %+v, %v", web.Status, err)
	}
	applied, err := k.ConfigMap("applied")
	if err != nil || !slices.ContainsFunc(applied.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == "informd/acts" && f.Operation == metav1.ManagedFieldsOperationApply
	}) {
		t.Errorf("informd/acts applied none of %+v, %v", applied.ManagedFields, err)
	}
	d.AwaitDelivered()
	for verb, n := range map[string]int{"create": 1, "apply": 1, "patch": 3, "delete": 1, "event": 1} {
		got := 0
		d.Until("the log to tell of "+verb, func() bool {
			got = harness.Count(d.Log.String(), "msg=action ", "rule=acts ", "handler=puppet ", "verb="+verb+" ")
			return got >= n
		})
		if got != n {
			t.Errorf("%d lines of the log tell of %s, want %d", got, verb, n)
		}
	}
	if strings.Contains(d.Logged(), "hush-hush") {
		t.Error("what was written is in the log")
	}

	// informd checks all actions of an answer before it performs the first.
	k.Create(scripted("greedy", `[{"Verb":"patch","Patch":{"data":{"patched":"yes"}}},
		{"Verb":"delete","Resource":{"version":"v1","resource":"pods"},"Name":"web"}]`, ""))
	d.Poll("a dead letter", func() bool { return d.Metric("informd_dead_letters") == "1" })
	letter := state.Command("dead", "list", "-o", "json")
	for _, want := range []string{`delete of v1/pods ` + k.Ns + `/web is not allowed for handler \"puppet\"`, "spec.access.write needs {resource: v1/pods, verbs: [delete]"} {
		if !strings.Contains(letter, want) {
			t.Errorf("the dead letter does not say %q:\n%s", want, letter)
		}
	}
	if cm, err := k.ConfigMap("greedy"); err != nil || cm.Data["patched"] != "" {
		t.Errorf("the first action was done though the second is not allowed: %v, %v", cm.Data, err)
	}

	// The API server may allow tomorrow what it denies today, so informd retries.
	k.Create(scripted("early", `[{"Verb":"create","Resource":{"version":"v1","resource":"serviceaccounts"},"Name":"robot","Object":{}}]`, ""))
	d.Until("the denial in the log", func() bool {
		return harness.Count(d.Log.String(), "msg=action ", "verb=create ", "resource=v1/serviceaccounts ", "result=failed ", "code=403 ") > 0
	})
	k.Allow("late", `[{apiGroups: [""], resources: [serviceaccounts], verbs: [create]}]`)
	k.Eventually("the account", func() bool {
		_, err := k.Typed.CoreV1().ServiceAccounts(k.Ns).Get(t.Context(), "robot", metav1.GetOptions{})
		return err == nil
	})
	d.AwaitDelivered()
	if n := d.Metric("informd_dead_letters"); n != "1" {
		t.Errorf("%s dead letters, want the one", n)
	}
	d.Stop()
	if n := len(stage.told("allowed")); n != 1 {
		t.Errorf("the handler was told %d times of an object that only its own rule changed", n)
	}
}

// An answer does not overwrite a change that came after its event: the handler gets it again.
// informd leaves an object alone that is gone, or replaced by another of the same name.
func TestLateActions(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	kubeconfig, stage := k.Limited(t), newTheater(t)
	k.Allow("acting", acting)
	d := harness.RunInformd(t, kubeconfig, k.Text(harness.Source("configmaps", harness.ConfigMaps)+
		stage.puppet("concurrency: 8, access: {write: ["+anyAction+"]}")+
		harness.Rule("acts", "source: configmaps, handler: puppet")))
	d.AwaitReady()

	const copySize = `[{"Verb":"patch","Patch":{"data":{"copy":"${size}"}}}]`
	create := func(name string) func(patch string) {
		o := k.Create(scripted(name, copySize, "hold: 'yes', size: '1'"))
		return func(patch string) {
			k.Eventually(name+" to be with the handler", func() bool { return len(stage.told(name)) == 1 })
			if patch == "" {
				k.Delete(o)
			} else {
				k.Patch(o, patch)
			}
		}
	}
	changed, gone, replaced := create("changed"), create("gone"), create("replaced")
	changed("data: {size: '2', foreign: 'yes'}")
	stage.release("changed")
	k.Has("changed", "copy", "2")
	k.Has("changed", "foreign", "yes")

	gone("")
	stage.release("gone")
	k.Eventually("the deletion to be told", func() bool { return slices.Contains(kinds(stage.told("gone")), "deleted") })

	replaced("")
	k.Create(harness.ConfigMap("replaced", "{size: '3'}"))
	stage.release("replaced")
	k.Eventually("the other object to be told", func() bool {
		all := stage.told("replaced")
		return all[len(all)-1].Data["size"] == "3"
	})
	d.AwaitDelivered()
	if cm, err := k.ConfigMap("replaced"); err != nil || cm.Data["copy"] != "" {
		t.Errorf("what was meant for another object was done to %v, %v", cm.Data, err)
	}
	if n := d.Metric("informd_dead_letters"); n != "0" {
		t.Errorf("%s dead letters, want none", n)
	}
	d.Stop()
	if n := harness.Count(d.Logged(), "msg=action ", "name=changed ", "result=conflict"); n != 1 {
		t.Errorf("%d conflicts, want one", n)
	}
}

func kinds(all []cue) (events []string) {
	for _, what := range all {
		events = append(events, what.Event)
	}
	return events
}
