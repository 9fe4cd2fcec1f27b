package trial

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/informd/informd/plugins/handler"
	_ "github.com/informd/informd/plugins/host/shim/install"
	"github.com/informd/informd/plugins/serve"
)

// TestMain re-executes the test binary as a handler: it reads the pods of a node, and asks for an
// Event about the node.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("BATCHES") != "":
		serve.Main(batches{})
		return
	case os.Getenv("COUNTER") != "":
		serve.Main(&counter{})
		return
	}
	os.Exit(m.Run())
}

type counter struct{ cache handler.Cache }

func (c *counter) UseCache(cache handler.Cache) { c.cache = cache }

func (c *counter) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	pods, err := c.cache.IndexKeys(ctx, "pods", "byNode", ev.Name)
	if err != nil {
		return handler.Answer{}, err
	}
	slog.DebugContext(ctx, "counted")
	return handler.Answer{Actions: []handler.Action{{
		Verb: handler.ActionEvent, Resource: ev.Resource, Name: ev.Name,
		Reason: "Counted", Message: fmt.Sprint("Pods: ", pods),
	}}}, nil
}

// batches rejects what is bad, and logs what comes together and what comes alone.
type batches struct{}

func (batches) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	slog.InfoContext(ctx, "alone")
	return handler.Answer{}, nil
}

func (batches) HandleBatch(ctx context.Context, events []handler.Event) []handler.Result {
	slog.InfoContext(ctx, "together", "events", len(events))
	results := make([]handler.Result, len(events))
	for i, ev := range events {
		if ev.Name == "bad" {
			slog.WarnContext(serve.WithEvent(ctx, ev), "bad")
			results[i].Err = handler.Reject(nil)
		}
	}
	return results
}

const manifest = `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: nodes}
spec: {resource: v1/nodes}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods, indexes: {byNode: object.spec.nodeName}}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: counter}
spec:
  command: [%q]
  env: [COUNTER, GORACE]
  access: {read: [%s], write: [{resource: v1/nodes, verbs: [%s]}]}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: count}
spec: {source: nodes, handler: counter}
`

// written writes the manifest, and returns its path and that of a cache.
func written(t *testing.T, read, verb string) (manifests, cache string) {
	t.Helper()
	t.Setenv("COUNTER", "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir := t.TempDir()
	manifests, cache = filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "cache.yaml")
	for path, text := range map[string]string{
		manifests: fmt.Sprintf(manifest, os.Args[0], read, verb),
		cache: "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n" +
			"{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web}, spec: {nodeName: n1}}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return manifests, cache
}

// does runs a command line and returns what it prints, and its error.
func does(t *testing.T, cmd *cobra.Command, args ...string) (out, log string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// The handler gets the node that the cache has, and the pods on it. --debug shows its debug lines.
func TestTryWithManifest(t *testing.T) {
	manifests, cache := written(t, "pods", "event")
	for _, debug := range []bool{false, true} {
		out, log, err := does(t, NewTryCommand("v1"), "-f", manifests, "--cache", cache, fmt.Sprintf("--debug=%t", debug))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"event 1 of 1: added v1/nodes n1, rule count, id count/n1/added\n", "\n  answer   done (",
			"\n  action   event v1/nodes n1 Counted: Pods: [shop/web]\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is missing in\n%s", want, out)
			}
		}
		if want := "level=DEBUG msg=counted rule=count key=n1 id=count/n1/added\n"; (log == want) != debug {
			t.Errorf("debug %v: the log is %q", debug, log)
		}
	}
}

// A handler that takes batches gets the events of different objects together. One that bears less
// gets less, and an event of an object that the batch has goes with the next one.
func TestTryBatches(t *testing.T) {
	events := filepath.Join(t.TempDir(), "events.jsonl")
	text := ""
	for _, name := range []string{"a", "bad", "c", "a"} {
		text += fmt.Sprintf("{\"event\":\"added\",\"rule\":\"r\",\"name\":%q}\n", name)
	}
	if err := os.WriteFile(events, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := []string{"--event", events, "--env", "BATCHES=1", "--env", "GORACE=atexit_sleep_ms=0", os.Args[0]}
	out, log, err := does(t, NewTryCommand("v1"), command...)
	if err == nil || err.Error() != "1 of 4 events were not done" {
		t.Errorf("%v", err)
	}
	if want := "level=INFO msg=together events=3\nlevel=WARN msg=bad rule=r key=bad id=r/2\n" +
		"level=INFO msg=alone rule=r key=a id=r/4\n"; log != want {
		t.Errorf("the log is\n%s, want\n%s", log, want)
	}
	var answers []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "  answer ") {
			answers = append(answers, milliseconds.ReplaceAllString(strings.TrimSpace(line), "T"))
		}
	}
	want := []string{
		"answer   done (T, in a batch of 3)", "answer   reject: rejected (T, in a batch of 3)",
		"answer   done (T, in a batch of 3)", "answer   done (T)",
	}
	if diff := cmp.Diff(want, answers); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	out, _, _ = does(t, NewTryCommand("v1"), append([]string{"-o", "json"}, command...)...)
	if n := strings.Count(out, `"batch":3`); n != 3 {
		t.Errorf("%d of 4 answers have a batch of 3:\n%s", n, out)
	}
}

// milliseconds matches how long an answer took.
var milliseconds = regexp.MustCompile(`[0-9.]+m?s\b`)

// An event of a group may be written by hand: its items have what the event has, unless they say
// otherwise.
func TestTryItems(t *testing.T) {
	manifests, cache := written(t, "pods", "event")
	path := filepath.Join(t.TempDir(), "event.yaml")
	text := "{rule: count, event: added, resource: v1/nodes, name: n1, items: [" +
		"{event: updated, resource: v1/pods, namespace: shop, name: web, payload: {a: 1}}, {event: added, name: n1, object: {b: 2}}]}"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := does(t, NewTryCommand("v1"), "-f", manifests, "--cache", cache, "--event", path)
	want := "\n  item     updated v1/pods shop/web {\"a\":1}\n  item     added v1/nodes n1 {\"b\":2}\n  answer   done"
	if err != nil || !strings.Contains(out, want) {
		t.Errorf("%v: %q is missing in\n%s", err, want, out)
	}
}

// What the manifest does not allow is rejected, by try and by check, and both say which line would
// allow it.
func TestManifestDenies(t *testing.T) {
	for _, c := range []struct{ why, read, verb, clause, want string }{
		{"an action", "pods", "patch", "", `spec.access.write needs {resource: v1/nodes, verbs: [event]}`},
		{"an action, by its own clause", "pods", "patch", "actions that can be taken", `spec.access.write needs {resource: v1/nodes, verbs: [event]}`},
		{"a read", "nodes", "event", "", `add to its manifest spec: {access: {read: [nodes, pods]}}`},
		{"a read, by its own clause", "nodes", "event", "reads what the cache has", `add to its manifest spec: {access: {read: [nodes, pods]}}`},
	} {
		manifests, cache := written(t, c.read, c.verb)
		clause := c.clause
		if clause == "" {
			out, _, err := does(t, NewTryCommand("v1"), "-f", manifests, "--cache", cache)
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("try: %s: %v\n%s", c.why, err, out)
			}
			clause = asManifestSays
		}
		out, _, err := does(t, NewConformanceCommand("v1"), "-f", manifests, "--cache", cache, "--clause", clause)
		if err == nil || err.Error() != "1 clause does not hold" || !strings.Contains(out, c.want) {
			t.Errorf("check: %s: %v\n%s", c.why, err, out)
		}
	}
	manifests, cache := written(t, "pods", "event")
	out, _, err := does(t, NewConformanceCommand("v1"), "-f", manifests, "--cache", cache, "--clause", asManifestSays)
	if want := "ok    works as its manifest says\nok: 1 clause holds\n"; err != nil || out != want {
		t.Errorf("%v\n%s", err, out)
	}
}

// An object becomes what the handler's rules make of it: their where, payload and attach hold, and
// find what the cache has.
func TestObjectsGoThroughRules(t *testing.T) {
	manifests, cache := written(t, "pods", "event")
	text, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	more := string(text) + `---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: busy}
spec:
  source: nodes
  handler: counter
  where: object.metadata.name != "n3"
  when: len(lookup("pods.byNode", object.metadata.name)) > 0
  payload: {node: object.metadata.name}
  attach: {pods: 'lookup("pods.byNode", object.metadata.name)'}
`
	events := filepath.Join(t.TempDir(), "nodes.yaml")
	nodes := ""
	for _, name := range []string{"n1", "n2"} {
		nodes += "apiVersion: v1\nkind: Node\nmetadata: {name: " + name + ", uid: u-" + name + ", resourceVersion: '7'}\n---\n"
	}
	nodes += "{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: p}}\n"
	for path, text := range map[string]string{manifests: more, events: nodes} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, log, err := does(t, NewTryCommand("v1"), "-f", manifests, "--cache", cache, "--event", events)
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	for _, want := range []string{
		"event 1 of 3: added v1/nodes n1, rule count, id count/u-n1/added/7 (" + events + ":1)\n  object   {",
		"event 2 of 3: added v1/nodes n1, rule busy, id busy/u-n1/added/7 (" + events + ":1)\n" +
			"  payload  {\"node\":\"n1\"}\n  attached pods: 1\n  answer   done",
		"event 3 of 3: added v1/nodes n2, rule count, id count/u-n2/added/7 (" + events + ":5)\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if want := events + ":9: no rule of handler counter selects the Pod a/p when it is added\n"; log != want {
		t.Errorf("the log is %q, want %q", log, want)
	}
}

// A rule without a source has the event of a moment, if it wants one.
func TestMomentGoesThroughRule(t *testing.T) {
	manifests, cache := written(t, "pods", "event")
	text, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	more := strings.Replace(string(text), "spec: {source: nodes, handler: counter}", `spec:
  schedule: {cron: "@daily"}
  handler: counter
  when: len(lookup("pods.byNode", "n1")) > 0
  payload: {pods: 'map(lookup("pods.byNode", "n1"), .metadata.name)'}
`, 1)
	if err := os.WriteFile(manifests, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, _ := does(t, NewTryCommand("v1"), "-f", manifests, "--cache", cache)
	for _, want := range []string{
		"event 1 of 1: synced informd.dev/v1alpha1/rules count, rule count, id count/count/synced/1/",
		"\n  payload  {\"pods\":[\"web\"]}\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	_, _, err = does(t, NewTryCommand("v1"), "-f", manifests)
	if err == nil || !strings.Contains(err.Error(), "rule count has no event now, because its when does not hold") {
		t.Error(err)
	}
	object := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(object, []byte("{apiVersion: v1, kind: Node, metadata: {name: n1}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = does(t, NewTryCommand("v1"), "-f", manifests, "--cache", cache, "--event", object)
	if err == nil || !strings.Contains(err.Error(), "no rule of handler counter selects the Node n1") {
		t.Error(err)
	}
}
