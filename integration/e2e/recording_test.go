package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
)

// command is a program that runs beside the test, such as informd record.
type command struct {
	t   *testing.T
	cmd *exec.Cmd

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// Write takes what the command writes to standard error.
func (c *command) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *command) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

func start(t *testing.T, program string, args ...string) *command {
	t.Helper()
	c := &command{t: t, cmd: exec.Command(program, args...)}
	c.cmd.Stderr = c
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
	})
	return c
}

// startRecord starts informd record, and waits for the snapshot.
func startRecord(t *testing.T, kubeconfig, rules, file string) *command {
	t.Helper()
	c := start(t, harness.Binary, "record", "-f", rules, "-o", file, "--kubeconfig", kubeconfig)
	await(t, "the snapshot", func() bool { return strings.Contains(c.said(), "now recording changes") })
	return c
}

// end ends the command with a signal, and returns its exit code.
func (c *command) end(signal syscall.Signal) int {
	c.t.Helper()
	if err := c.cmd.Process.Signal(signal); err != nil {
		c.t.Fatal(err)
	}
	_ = c.cmd.Wait() // the exit code says it
	return c.cmd.ProcessState.ExitCode()
}

func await(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(harness.Patience); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", harness.Patience, what)
		}
	}
}

// awaitText waits until a file has a text.
func awaitText(t *testing.T, file, text string) {
	t.Helper()
	await(t, text+" in "+file, func() bool {
		content, err := os.ReadFile(file)
		return err == nil && bytes.Contains(content, []byte(text))
	})
}

// replayed is an event as informd replay -o json prints it.
type replayed struct {
	ID    string
	Event struct {
		Rule, Event, Namespace, Name string
		Attempt                      int
		Payload                      any
	}
}

// replay returns the ids and payloads of events by rule and object, as eventsOf does.
func replay(t *testing.T, rules, file string, args ...string) map[string][]string {
	t.Helper()
	code, out, log := harness.Informd(t, append([]string{"replay", "-f", rules, "-o", "json", file}, args...)...)
	if code != 0 {
		t.Fatalf("informd replay: exit code %d\n%s", code, log)
	}
	all := make(map[string][]string)
	for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
		var e replayed
		if err := decoder.Decode(&e); err != nil {
			t.Fatal(err)
		}
		key := e.Event.Rule + " " + e.Event.Namespace + "/" + e.Event.Name
		all[key] = append(all[key], idAndPayload(e.ID, e.Event.Payload))
	}
	return all
}

// eventsOf returns the ids and payloads of the daemon's events by rule and object.
func eventsOf(events []handler.Event) map[string][]string {
	all := make(map[string][]string)
	for _, e := range events {
		var payload any
		_ = json.Unmarshal(e.Payload, &payload) // it may have none
		key := e.Rule + " " + e.Namespace + "/" + e.Name
		all[key] = append(all[key], idAndPayload(e.ID, payload))
	}
	return all
}

func idAndPayload(id string, payload any) string {
	b, _ := json.Marshal(payload) // it was JSON
	return id + " " + string(b)
}

const last = "the-last-one"

// TestReplayGivesTheDaemonsEvents records random changes beside a daemon, on a real control plane.
// INFORMD_SEED says with which seed.
func TestReplayGivesTheDaemonsEvents(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	random := rand.New(rand.NewPCG(harness.Seed(t), 18))
	rules := harness.WriteFile(t, "rules.yaml", k.Text(
		harness.Source("maps", "resource: v1/configmaps, namespaces: [NS]")+
			harness.Source("web", "resource: v1/configmaps, labelSelector: app=web")+
			harness.Source("db", "resource: v1/configmaps, namespaces: [NS], labelSelector: app=db, keep: needed")+
			harness.Source("hidden", "resource: v1/secrets, namespaces: [NS], indexes: {size: object.metadata.labels.size}")+
			harness.Handler("log", "builtin: log")+
			harness.Rule("maps", "source: maps, handler: log, delivery: every, payload: [event, object.data, old.data]")+
			harness.Rule("web", "source: web, handler: log, delivery: every, where: object.metadata.namespace == 'NS', payload: object.metadata.labels")+
			harness.Rule("db", "source: db, handler: log, delivery: every, where: object.data.size != '1', payload: object.data.size")+
			harness.Rule("waits", "source: maps, handler: log, delivery: every, where: object.metadata.labels.wait == 'yes', for: 2s, payload: object.metadata.name")+
			harness.Rule("rotated", "source: hidden, handler: log, delivery: every, events: [updated], when: object.data != old.data, payload: object.metadata.resourceVersion")+
			harness.Rule("third", "source: maps, handler: log, delivery: every, count: {times: 3, within: 1h}, payload: object.data")+
			harness.Rule("found", `source: maps, handler: log, delivery: every, events: [added], payload: 'map(lookup("hidden.size", "7"), .metadata.name)'`)))
	objects := make(map[string]*unstructured.Unstructured)
	change := func() {
		kind, name := "ConfigMap", fmt.Sprint("o", random.IntN(6))
		if random.IntN(3) == 0 {
			kind = "Secret"
		}
		key := kind + name
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{
			"name": name, "namespace": k.Ns, "labels": map[string]any{"app": []string{"web", "db", "other"}[random.IntN(3)]},
		}}}
		size := fmt.Sprint(random.IntN(3))
		if kind == "Secret" {
			o.Object["stringData"] = map[string]any{"size": size}
		} else {
			o.Object["data"] = map[string]any{"size": size}
		}
		of := k.Resource(o)
		var err error
		switch {
		case objects[key] == nil:
			o, err = of.Create(t.Context(), o, metav1.CreateOptions{})
		case random.IntN(4) == 0:
			err = of.Delete(t.Context(), name, metav1.DeleteOptions{})
			o = nil
		default:
			o, err = of.Update(t.Context(), o, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		objects[key] = o
	}
	k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {name: waits-already, namespace: NS, labels: {wait: "yes"}}}`)
	k.Create(`{apiVersion: v1, kind: Secret, metadata: {name: seven, namespace: NS, labels: {size: "7"}}, stringData: {p: hunter2}}`)
	for range 10 {
		change()
	}
	file := filepath.Join(t.TempDir(), "r.jsonl")
	recorder := startRecord(t, c.Kubeconfig(), rules, file)
	daemon := harness.RunInformd(t, c.Kubeconfig(), rules, "--state-dir", "none")
	daemon.AwaitReady()
	for range 60 {
		change()
	}
	k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {name: waits, namespace: NS, labels: {wait: "yes"}}}`)
	isLast := func(rule string) func([]handler.Event) bool {
		return func(events []handler.Event) bool {
			return slices.ContainsFunc(events, func(e handler.Event) bool { return e.Rule == rule && e.Name == last })
		}
	}
	daemon.Await("the one that waits", func(events []handler.Event) bool {
		return slices.ContainsFunc(events, func(e handler.Event) bool { return e.Rule == "waits" && e.Name == "waits" })
	})
	k.Create(`{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + last + `, namespace: NS}}`)
	daemon.Await("the last event", isLast("maps"))
	daemon.AwaitDelivered()
	awaitText(t, file, last)
	if code := recorder.end(syscall.SIGINT); code != 0 {
		t.Errorf("informd record: exit code %d\n%s", code, recorder.said())
	}
	daemon.Stop()
	got, want := replay(t, rules, file), eventsOf(daemon.Events)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-daemon +replay)\n%s", diff)
	}
	events := 0
	for _, of := range want {
		events += len(of)
	}
	t.Logf("%d events of %d rules and objects, the same", events, len(want))
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte("aHVudGVyMg==")) || bytes.Contains(content, []byte("hunter2")) {
		t.Error("the recording has a Secret's value")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// While the API server refuses watches and forgets its history, objects change. The recording and
// the daemon have the same gap.
func TestGap(t *testing.T) {
	t.Parallel()
	stub, kubeconfig := harness.NewStub(t)
	rules := harness.WriteFile(t, "rules.yaml", harness.Source("maps", "resource: v1/configmaps")+harness.Handler("log", "builtin: log")+
		harness.Rule("maps", "source: maps, handler: log, delivery: every, payload: [event, object.data.size, old.data.size]"))
	apply := func(name, size string) {
		stub.Apply(harness.ConfigMapResource, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"data":{"size":%q}}`, name, size))
	}
	for _, name := range []string{"same", "changed", "gone", "replaced"} {
		apply(name, "1")
	}
	file := filepath.Join(t.TempDir(), "r.jsonl.gz")
	recorder := startRecord(t, kubeconfig, rules, file)
	daemon := harness.RunInformd(t, kubeconfig, rules, "--state-dir", "none")
	daemon.AwaitReady()
	stub.AwaitWatches(harness.ConfigMapResource, 2)
	apply("seen", "1")
	daemon.Await("what came before the gap", func(events []handler.Event) bool { return len(events) == 5 })
	stub.Forbid(harness.ConfigMapResource, true)
	stub.DropWatches()
	apply("changed", "2")
	apply("changed", "3")
	apply("new", "1")
	apply("fleeting", "1")
	for _, name := range []string{"gone", "replaced", "fleeting"} {
		stub.Delete(harness.ConfigMapResource, "shop", name)
	}
	apply("replaced", "4")
	stub.Expire()
	stub.Forbid(harness.ConfigMapResource, false)
	await(t, "the list after the gap", func() bool { return strings.Contains(recorder.said(), "listed again") })
	stub.AwaitWatches(harness.ConfigMapResource, 2)
	apply(last, "1")
	daemon.Await("the last event", func(events []handler.Event) bool {
		return slices.ContainsFunc(events, func(e handler.Event) bool { return e.Name == last })
	})
	daemon.AwaitDelivered()
	await(t, "the last change in the file", func() bool { return len(replay(t, rules, file)["maps shop/"+last]) > 0 })
	recorder.end(syscall.SIGKILL)
	daemon.Stop()
	got, want := replay(t, rules, file), eventsOf(daemon.Events)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-daemon +replay)\n%s", diff)
	}
	if len(want) != 7 {
		t.Errorf("events %v", slices.Sorted(maps.Keys(want)))
	}
}

// What kubectl prints is a recording, too: a watch's changes, and lists.
func TestKubectl(t *testing.T) {
	t.Parallel()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		kubectl, err = filepath.Abs(harness.Root + "/bin/exec-" + runtime.GOARCH + "/kubectl") // from make image
	}
	if _, gone := os.Stat(kubectl); err != nil || gone != nil {
		harness.Lacks(t, "there is no kubectl: what it prints is in cmd/informd/recording/testdata")
	}
	c := cluster.Shared(t)
	k := harness.NewKube(t, c)
	rules := harness.WriteFile(t, "rules.yaml", k.Text(harness.Source("maps", harness.ConfigMaps)+harness.Handler("log", "builtin: log")+
		harness.Rule("maps", "source: maps, handler: log, delivery: every, payload: object.data")))
	first := k.Create(harness.ConfigMap("first", `{size: "1"}`))
	out := filepath.Join(t.TempDir(), "k.json")
	watch := start(t, "sh", "-c", `exec "$@" >"$0"`, out, kubectl, "--kubeconfig", c.Kubeconfig(), "-n", k.Ns, "get", "configmaps", "--watch", "--output-watch-events", "-o", "json")
	awaitText(t, out, `"first"`)
	daemon := harness.RunInformd(t, c.Kubeconfig(), rules, "--state-dir", "none")
	daemon.AwaitReady()
	k.Patch(first, `data: {size: "2"}`)
	second := k.Create(harness.ConfigMap("second", `{size: "1"}`))
	k.Delete(second)
	daemon.Await("the deletion", func(events []handler.Event) bool {
		return slices.ContainsFunc(events, func(e handler.Event) bool { return e.Event == handler.Deleted })
	})
	awaitText(t, out, "DELETED")
	daemon.Stop()
	watch.end(syscall.SIGTERM)
	if diff := cmp.Diff(eventsOf(daemon.Events), replay(t, rules, out)); diff != "" {
		t.Errorf("(-daemon +replay of kubectl's output)\n%s", diff)
	}
	code, list, log := harness.RunCommand(t, kubectl, "--kubeconfig", c.Kubeconfig(), "-n", k.Ns, "get", "configmaps", "-o", "json")
	if code != 0 {
		t.Fatal(log)
	}
	got := replay(t, rules, harness.WriteFile(t, "list.json", list))
	if diff := cmp.Diff([]string{"maps " + k.Ns + "/first"}, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("a list (-want +got)\n%s", diff)
	}
}
