package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// deployManifests returns what the files of deploy/ that match pattern have, in the order in which
// kubectl applies it.
func deployManifests(t *testing.T, pattern string) (all []*unstructured.Unstructured) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(harness.Root, "deploy", pattern))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
			o := &unstructured.Unstructured{}
			if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all = append(all, o)
		}
	}
	return all
}

// a client that applies objects, and the warnings that the API server gave it.
type applier struct {
	k       *harness.Kube
	objects dynamic.Interface
	mu      sync.Mutex
	given   []string // warnings; guarded by mu
}

func (a *applier) HandleWarningHeader(_ int, _, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.given = append(a.given, text)
}

func (a *applier) warnings() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.given)
}

func newApplier(t *testing.T) *applier {
	t.Helper()
	c := cluster.Shared(t)
	a := &applier{k: harness.NewKube(t, c)}
	config := c.RESTConfig()
	config.WarningHandler = a
	var err error
	if a.objects, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	a.k.Objects = a.objects
	return a
}

// apply does what `kubectl apply --server-side --validate=strict` does.
func (a *applier) apply(t *testing.T, o *unstructured.Unstructured, dryRun ...string) error {
	t.Helper()
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.k.Resource(o).Patch(t.Context(), o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
		FieldManager: "test", FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun,
	})
	return err
}

// The guide shows what kubectl prints, for deploy/ as it is, and has a row for each file.
func TestDeployGuide(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(harness.Root + "/docs/guides/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(content)
	var printed strings.Builder
	for _, o := range deployManifests(t, "*.yaml") {
		outcome := "created"
		if o.GetKind() == "Namespace" {
			outcome = "unchanged" // the guide applies it before
		}
		fmt.Fprintf(&printed, "%s %s (server dry run)\n", asKubectl(o), outcome)
	}
	if !strings.Contains(guide, printed.String()) {
		t.Errorf("docs/guides/deploy.md does not show what kubectl prints:\n%s", &printed)
	}
	files, err := filepath.Glob(harness.Root + "/deploy/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if !strings.Contains(guide, "| [`"+filepath.Base(file)+"`]") {
			t.Errorf("docs/guides/deploy.md has no row for %s", file)
		}
	}
}

// asKubectl returns what kubectl calls an object.
func asKubectl(o *unstructured.Unstructured) string {
	kind := strings.ToLower(o.GetKind())
	if group := o.GroupVersionKind().Group; group != "" {
		kind += "." + group
	}
	return kind + "/" + o.GetName()
}

// statefulSet returns informd's, of the files of deploy/ that match pattern.
func statefulSet(t *testing.T, pattern string) (set appsv1.StatefulSet) {
	t.Helper()
	for _, o := range deployManifests(t, pattern) {
		if o.GetKind() == "StatefulSet" {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &set); err != nil {
				t.Fatal(err)
			}
			return set
		}
	}
	t.Fatalf("deploy/%s has no StatefulSet", pattern)
	return set
}

// The API server accepts deploy/ as it is, and its Pod in a namespace that enforces the profile
// "restricted". Then the Pod's container runs as the kubelet would run it, with the rights that
// deploy/ gives it and no others.
func TestDeploy(t *testing.T) {
	t.Parallel()
	a := newApplier(t)
	for _, o := range deployManifests(t, "*.yaml") {
		dryRun := []string{metav1.DryRunAll}
		if o.GetKind() == "Namespace" {
			dryRun = nil // what follows is in it
		}
		if err := a.apply(t, o, dryRun...); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	for _, o := range deployManifests(t, "*.yaml") {
		if err := a.apply(t, o); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	set, replicas := statefulSet(t, "*.yaml"), statefulSet(t, "replicas/*.yaml")
	t.Run("restricted", func(t *testing.T) { checkRestricted(t, a, set) })
	t.Run("replace by replicas", func(t *testing.T) { replaceByReplicas(t, a) })
	t.Run("restricted replicas", func(t *testing.T) { checkRestricted(t, a, replicas) })
	if w := a.warnings(); len(w) > 0 {
		t.Errorf("the API server warns: %q", w)
	}
	t.Run("run", func(t *testing.T) {
		i := informdImage(t)
		eachWay(t, func(t *testing.T, own bool) { runPod(t, i, set, replicas, own) })
		t.Run("replicas", func(t *testing.T) {
			eachWay(t, func(t *testing.T, own bool) { runReplicas(t, i, replicas, own) })
		})
		t.Run("scripts", func(t *testing.T) {
			i := unpack(t, execLayout(t), "")
			eachWay(t, func(t *testing.T, own bool) { runScript(t, i, set, own) })
		})
		t.Run("confined", func(t *testing.T) {
			eachWay(t, func(t *testing.T, own bool) { runConfined(t, i, set, own) })
		})
	})
}

func checkRestricted(t *testing.T, a *applier, set appsv1.StatefulSet) {
	pods := a.k.Typed.CoreV1().Pods(set.Namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "informd-0"}, Spec: *set.Spec.Template.Spec.DeepCopy()}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-informd-0"},
		}})
	}
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	if _, err := pods.Create(t.Context(), pod, options); err != nil {
		t.Errorf("informd's Pod is refused: %v", err)
	}
	pod.Spec.Containers[0].SecurityContext.Capabilities = nil
	if _, err := pods.Create(t.Context(), pod, options); err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		t.Errorf("the namespace enforces nothing: a Pod with capabilities gives %v", err)
	}
}

// runPod runs the container of the StatefulSet's Pod twice, with the same volume for its state. Then
// it runs a Pod of replicas on that volume, which refuses it.
func runPod(t *testing.T, i *image, set, replicas appsv1.StatefulSet, own bool) {
	k := harness.NewKube(t, cluster.Shared(t))
	c := set.Spec.Template.Spec.Containers[0]
	rules, err := k.Typed.CoreV1().ConfigMaps(set.Namespace).Get(t.Context(), "informd-rules", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := newPod(t, k, i, set, own, rules.Data)
	d := harness.StartDaemon(t, pod.command(t))
	d.AwaitReady()
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if code, body := d.Get(probe.HTTPGet.Path); code != http.StatusOK {
			t.Errorf("%s: %d %s", probe.HTTPGet.Path, code, body)
		}
	}
	if says, durable := d.Durability(); !durable {
		t.Errorf("the state on the volume: %s", says)
	}
	fail := func(name string) {
		made := k.Create(`{apiVersion: v1, kind: Pod, metadata: {namespace: NS, name: ` + name + `}, spec: {containers: [{name: c, image: i}]}}`)
		k.Patch(made, `status: {phase: Failed, reason: Evicted}`, "status")
	}
	fail("first")
	awaitEvent(d, k.Ns+"/first")
	for command, want := range map[string]string{"status": "failed-pods", "rule list": "failed-pods", "get pods": "first"} {
		args := append([]string{"/usr/bin/informd"}, strings.Fields(command)...)
		code, out := inside(t, own, d.Cmd.Process.Pid, pod.Env, args...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("kubectl exec informd-0 -- informd %s: exit code %d\n%s", command, code, out)
		}
	}
	republish(t, pod, "/rules", own, func(_, text string) string {
		return strings.ReplaceAll(text, "name: failed-pods", "name: lost-pods")
	})
	d.Await("the changed rule", func(events []handler.Event) bool {
		return slices.ContainsFunc(events, func(ev handler.Event) bool { return ev.Rule == "lost-pods" })
	})
	d.Stop()

	fail("second") // while it is down
	d = harness.StartDaemon(t, pod.command(t))
	awaitEvent(d, k.Ns+"/second")
	d.AwaitReady()
	if log := d.Logged(); !strings.Contains(log, "resuming from the saved state") || strings.Contains(log, `"level":"WARN"`) {
		t.Error("it does not resume, or warns")
	}
	d.Stop()

	replica := newPods(t, i, replicas, own).newPod(0)
	for n, m := range replica.Mounts {
		if m.To == "/state" {
			replica.Mounts[n].From = pod.at("/state")
		}
	}
	d = harness.StartDaemon(t, replica.command(t))
	if code, log := d.ExitCode(), d.Logged(); code == 0 || !strings.Contains(log, "has the state of an informd without replicas") {
		t.Errorf("a replica on the volume of one informd: exit code %d\n%s", code, log)
	}
}

// newPod returns the container of the StatefulSet's Pod, with these files in place of the
// ConfigMap's.
func newPod(t *testing.T, k *harness.Kube, i *image, set appsv1.StatefulSet, own bool, rules map[string]string) container {
	t.Helper()
	c, security := set.Spec.Template.Spec.Containers[0], set.Spec.Template.Spec.SecurityContext
	if *security.RunAsUser != nonroot || *security.RunAsGroup != nonroot || *security.FSGroup != nonroot || !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Fatalf("this test runs something else: %+v, %+v", security, c.SecurityContext)
	}
	server, err := url.Parse(cluster.Shared(t).RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	return container{
		Root: i.root, Own: own, Args: append(slices.Clone(i.Config.Entrypoint), c.Args...),
		Env:    append(slices.Clone(i.Config.Env), "KUBERNETES_SERVICE_HOST="+server.Hostname(), "KUBERNETES_SERVICE_PORT="+server.Port()),
		Mounts: append(volumes(t, set, own, rules), serviceAccount(t, k, set, own)),
	}
}

// runScript runs scripts of the ConfigMap: one that uses jq, and kubectl with the Pod's rights, and
// one in a sandbox, which cannot read the Pod's token.
func runScript(t *testing.T, i *image, set appsv1.StatefulSet, own bool) {
	k := harness.NewKube(t, cluster.Shared(t))
	pod := newPod(t, k, i, set, own, map[string]string{
		"rules.yaml": strings.Replace(printPods, "builtin: log",
			"builtin: exec, env: [PATH, KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT], config: {command: [./page.sh]}", 1) + `
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: confined}
spec: {builtin: exec, env: [PATH], sandbox: true, files: {read: [./confined.sh]}, config: {command: [./confined.sh]}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: confined}
spec: {source: pods, handler: confined}
`,
		"confined.sh": `#!/bin/sh
cat /var/run/secrets/kubernetes.io/serviceaccount/token || echo "may not read the token"
`,
		"page.sh": `#!/bin/sh
set -eu
where=$(jq -r .namespace)
[ "$where" = ` + k.Ns + ` ] || exit 0
kubectl -n "$where" get pods -o name
kubectl -n "$where" get secrets || echo "may not read secrets"
`,
	})
	d := harness.StartDaemon(t, pod.command(t))
	d.AwaitReady()
	k.Create(`{apiVersion: v1, kind: Pod, metadata: {namespace: NS, name: p}, spec: {containers: [{name: c, image: i}]}}`)
	d.AwaitLog(`"line":"pod/p"`)
	d.AwaitLog(`"line":"may not read secrets"`)
	d.AwaitLog(`"line":"may not read the token"`)
	d.Stop()
}

// runConfined runs a handler with limits and a sandbox in the Pod.
func runConfined(t *testing.T, i *image, set appsv1.StatefulSet, own bool) {
	k := harness.NewKube(t, cluster.Shared(t))
	confined := strings.Replace(printPods, "builtin: log", "builtin: log, sandbox: true, limits: {memory: 256Mi, files: 64}", 1)
	pod := newPod(t, k, i, set, own, map[string]string{"rules.yaml": confined})
	d := harness.StartDaemon(t, pod.command(t))
	d.Until("the handler to start", func() bool {
		return strings.Contains(d.Log.String(), "handler ready") || strings.Contains(d.Log.String(), "landlock")
	})
	if log := d.Logged(); !strings.Contains(log, "handler ready") {
		t.Skipf("this kernel has no sandbox: %s", log)
	}
	k.Create(`{apiVersion: v1, kind: Pod, metadata: {namespace: NS, name: p}, spec: {containers: [{name: c, image: i}]}}`)
	awaitEvent(d, k.Ns+"/p")
	_, status := inside(t, own, d.Cmd.Process.Pid, pod.Env, "/usr/bin/informd", "status", "-o", "json")
	if !strings.Contains(status, "sandbox by landlock") || !strings.Contains(status, "by rlimit") {
		t.Errorf("the handler is not confined as docs/guides/deploy.md says: %s", status)
	}
	d.Stop()
}

func awaitEvent(d *harness.Daemon, pod string) {
	d.T.Helper()
	d.Await(pod+" to be told of", func(events []handler.Event) bool {
		return slices.ContainsFunc(events, func(ev handler.Event) bool { return ev.Namespace+"/"+ev.Name == pod })
	})
}

// volumes makes what the Pod mounts, as the kubelet does.
func volumes(t *testing.T, set appsv1.StatefulSet, own bool, rules map[string]string) (mounts []mount) {
	t.Helper()
	mode := int32(0o644)
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil && v.ConfigMap.DefaultMode != nil {
			mode = *v.ConfigMap.DefaultMode
		}
	}
	for _, m := range set.Spec.Template.Spec.Containers[0].VolumeMounts {
		dir := volume(t, own)
		mounts = append(mounts, mount{From: dir, To: m.MountPath, ReadOnly: m.ReadOnly})
		if m.Name == "rules" {
			for name, text := range rules {
				publish(t, dir, name, text, os.FileMode(mode), own)
			}
		}
	}
	return mounts
}

// republish changes what a container has mounted, as the kubelet does when a ConfigMap or a Secret has
// changed: it writes a folder of all files, and switches the link to it. change returns a file's new
// text.
func republish(
	t *testing.T, c container, at string, own bool, change func(name, text string) string) {
	t.Helper()
	const later = "..2026_01_01_00_01_00.2"
	dir := c.at(at)
	names, err := filepath.Glob(filepath.Join(dir, "..data", "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, path := range names {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		publishAs(t, filepath.Join(dir, later), name, change(name, string(text)), info.Mode().Perm(), own)
	}
	next := filepath.Join(dir, "..data_tmp")
	if err := os.Symlink(later, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
}

// publish writes a file as the kubelet does: the group's, and behind links, so that all files
// change at once.
func publish(t *testing.T, dir, name, text string, mode os.FileMode, own bool) {
	t.Helper()
	const data, version = "..data", "..2026_01_01_00_00_00.1"
	publishAs(t, filepath.Join(dir, version), name, text, mode, own)
	_ = os.Symlink(version, filepath.Join(dir, data)) // it is there for the second file
	if err := os.Symlink(filepath.Join(data, name), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func publishAs(t *testing.T, dir, name, text string, mode os.FileMode, own bool) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if !own {
		if err := os.Chown(path, 0, nonroot); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// serviceAccount is the mount with the credentials of the Pod's service account.
func serviceAccount(t *testing.T, k *harness.Kube, set appsv1.StatefulSet, own bool) mount {
	t.Helper()
	account := set.Spec.Template.Spec.ServiceAccountName
	token, err := k.Typed.CoreV1().ServiceAccounts(set.Namespace).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(fmt.Errorf("a token for %s: %w", account, err))
	}
	dir := volume(t, own)
	publish(t, dir, "token", token.Status.Token, 0o640, own)
	publish(t, dir, "ca.crt", string(cluster.Shared(t).RESTConfig().CAData), 0o640, own)
	publish(t, dir, "namespace", set.Namespace, 0o640, own)
	return mount{From: dir, To: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}
}
