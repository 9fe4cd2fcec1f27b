package e2e

import (
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
)

// The test kills the daemon after the API server has made a change and before the daemon gets the
// response. Each change takes effect once.
func TestActionsAreRepeatedWithoutEffect(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	kubeconfig, stage := k.Limited(t), newTheater(t)
	k.Allow("acting", acting)
	gate := newGate(t, kubeconfig)
	state := harness.NewStateDir(t, gate.kubeconfig, harness.ShortDir(t))
	manifests := k.Text(harness.Source("configmaps", harness.ConfigMaps) +
		stage.puppet("concurrency: 8, access: {write: ["+anyAction+"]}") +
		harness.Rule("acts", "source: configmaps, where: object.data.actions != nil, handler: puppet"))
	k.Create(harness.ConfigMap("doomed", "{}"))
	d := state.Settled(manifests)
	gate.close(writes)
	const configMaps = `"Resource":{"version":"v1","resource":"configmaps"}`
	appends := k.Create(scripted("appends", `[{"Verb":"patch","PatchType":"application/json-patch+json",
		"Patch":[{"op":"add","path":"/metadata/finalizers","value":["example.com/first"]}]}]`, "finalizer: example.com/first"))
	for name, actions := range map[string]string{
		"creates": `[{"Verb":"create",` + configMaps + `,"Name":"made","Object":{"data":{"by":"creates"}}}]`,
		"applies": `[{"Verb":"apply",` + configMaps + `,"Name":"applied","Object":{"data":{"by":"applies"}}}]`,
		"deletes": `[{"Verb":"delete",` + configMaps + `,"Name":"doomed"}]`,
		"tells":   `[{"Verb":"event","Reason":"Told","Message":"once"}]`,
	} {
		k.Create(scripted(name, actions, ""))
	}
	gate.awaitHeld(t, 5)
	d.Kill()
	k.Has("made", "by", "creates") // this process's, not that of an earlier run
	made, err := k.ConfigMap("made")
	if err != nil {
		t.Fatal(err)
	}
	gate.close(nil)
	d = state.Settled(manifests)
	d.AwaitDelivered()

	if got := k.EventsOf("tells"); len(got) != 1 || got[0].Count > 1 || got[0].Series != nil {
		t.Errorf("the Events are %+v, want one, that was told once", got)
	}
	k.Gone("doomed")
	k.Has("applied", "by", "applies")
	if again, err := k.ConfigMap("made"); err != nil || again.UID != made.UID || again.ResourceVersion != made.ResourceVersion {
		t.Errorf("created %v, and then it is %v, %v", made.ObjectMeta, again.ObjectMeta, err)
	}
	if cm, err := k.ConfigMap("appends"); err != nil || !slices.Equal(cm.Finalizers, []string{"example.com/first"}) {
		t.Errorf("the finalizers are %q, %v", cm.Finalizers, err)
	}
	if n := d.Metric("informd_dead_letters"); n != "0" {
		t.Errorf("%s dead letters:\n%s", n, state.Command("dead", "list", "-o", "json"))
	}
	d.Stop()
	// The answer was on disk before informd performed it. So informd asks a handler again only if
	// the object has changed since.
	for _, name := range []string{"creates", "applies", "deletes", "tells"} {
		if n := len(stage.told(name)); n != 1 {
			t.Errorf("the handler was told %d times of %q, want once", n, name)
		}
	}
	k.Patch(appends, "metadata: {finalizers: null}")
}

// informd records answers, so that it asks nobody twice after a crash. It does not record an answer
// that may contain the text of a Secret.
func TestAnswersWithSecretsStayOffTheDisk(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	kubeconfig, stage := k.Limited(t), newTheater(t)
	k.Allow("acting", acting)
	k.Allow("hiding", `[{apiGroups: [""], resources: [secrets, serviceaccounts], verbs: ["*"]}]`)
	gate := newGate(t, kubeconfig)
	state := harness.NewStateDir(t, gate.kubeconfig, harness.ShortDir(t))
	secrets := harness.Source("secrets", "resource: v1/secrets, namespaces: [NS], indexes: {byName: object.metadata.name}")
	manifests := k.Text(harness.Source("configmaps", harness.ConfigMaps) + secrets +
		stage.puppet("concurrency: 8, access: {write: ["+anyAction+", {resource: v1/secrets, verbs: [create]}, {resource: v1/serviceaccounts, verbs: [create]}]}") +
		harness.Rule("plain", "source: configmaps, where: object.data.rule == 'plain', handler: puppet") +
		harness.Rule("attaches", `source: configmaps, where: object.data.rule == 'attaches', handler: puppet, attach: {its: 'lookup("secrets.byName", "there")'}`) +
		harness.Rule("copies", `source: secrets, where: object.metadata.name == 'there', actions: [
			{apply: {resource: v1/serviceaccounts, object: {metadata: {namespace: NS, name: copied, annotations: {text: "${fromBase64(object.data.text)}"}}}}}]`))
	texts := map[string]string{}
	for _, name := range []string{"recorded", "secret", "attached", "copied"} {
		texts[name], _ = harness.RandomSecret()
		if name != "copied" {
			if err := appendTo(filepath.Join(stage.dir, name), []byte(texts[name])); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := state.Settled(manifests)
	gate.close(writes)
	// No source watches what the answer writes; otherwise its cache would bring it to the disk.
	create := func(name string) string {
		return `[{"Verb":"create","Resource":{"version":"v1","resource":"serviceaccounts"},"Name":"` + name + `","Object":{"metadata":{"annotations":{"text":"${` + name + `}"}}}}]`
	}
	k.Create(scripted("plain", create("recorded"), "rule: plain"))
	k.Create(scripted("creates", `[{"Verb":"create","Resource":{"version":"v1","resource":"secrets"},"Name":"made","Object":{"stringData":{"text":"${secret}"}}}]`, "rule: plain"))
	k.Create(scripted("attaches", create("attached"), "rule: attaches"))
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {namespace: NS, name: there}, stringData: {text: ` + texts["copied"] + `}}`)
	gate.awaitHeld(t, 4)
	check := func() {
		t.Helper()
		harness.WantOnDisk(t, state.Dir, texts["recorded"])
		harness.WantNotOnDisk(t, state.Dir, []string{texts["secret"], texts["attached"], texts["copied"]})
	}
	check()
	d.Kill()
	check()
	gate.close(nil)
	d = state.Settled(manifests)
	d.AwaitDelivered()
	for _, name := range []string{"recorded", "attached", "copied"} {
		account, err := k.Typed.CoreV1().ServiceAccounts(k.Ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || account.Annotations["text"] != texts[name] {
			t.Errorf("what was to be written of %q is %q, %v", name, account.Annotations["text"], err)
		}
	}
	d.Stop()
	for name, want := range map[string]int{"plain": 1, "creates": 2, "attaches": 2} {
		if n := len(stage.told(name)); n != want {
			t.Errorf("the handler was told %d times of %q, want %d", n, name, want)
		}
	}
	harness.WantNotOnDisk(t, state.Dir, []string{texts["secret"], texts["attached"], texts["copied"]})
}
