package trial

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Changes as kubectl prints them become what the informer and the handler's rules make of them.
func TestChangesFromKubectl(t *testing.T) {
	manifests, cache := written(t, "pods", "event")
	text, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	with := strings.Replace(string(text), "{resource: v1/nodes}", "{resource: v1/nodes, labelSelector: 'pool in (web, api)'}", 1)
	with = strings.Replace(with, "{source: nodes, handler: counter}", "{source: nodes, handler: counter, where: 'object.spec.taints == nil'}", 1)
	change := func(kind string, version int, pool, spec string) string {
		return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"Node","metadata":`+
			`{"name":"n1","uid":"u","resourceVersion":"%d","labels":{"pool":%q}},"spec":{%s}}}`+"\n", kind, version, pool, spec)
	}
	events := filepath.Join(t.TempDir(), "changes.json")
	write := func(path string, lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(manifests, with)
	const tainted = `"taints":[]`
	write(events,
		change("ADDED", 1, "other", ""),        // the informer does not see it
		change("MODIFIED", 2, "web", ""),       // it does now
		change("MODIFIED", 3, "api", ""),       //
		change("MODIFIED", 4, "api", tainted),  // where does not hold any more
		change("MODIFIED", 5, "web", ""),       // it does
		change("MODIFIED", 6, "other", ""),     // the selector does not hold any more
		change("MODIFIED", 7, "web", ""),       //
		change("DELETED", 8, "web", ""),        //
		change("DELETED", 9, "other", tainted), // the informer did not see it
	)
	out, log, err := does(t, NewTryCommand("v1"), "-f", manifests, "--event", events)
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	for i, id := range []string{"added/2", "updated/3", "deleted/3", "added/5", "deleted/5", "added/7", "deleted/8"} {
		kind, _, _ := strings.Cut(id, "/")
		if want := fmt.Sprintf("event %d of 7: %s v1/nodes n1, rule count, id count/u/%s (", i+1, kind, id); !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "\n  old      "); n != 1 {
		t.Errorf("%d events have an old state:\n%s", n, out)
	}
	if want := events + ":9: no rule of handler counter selects the Node n1 when it is deleted\n"; !strings.Contains(log, want) {
		t.Errorf("%q is missing in\n%s", want, log)
	}

	// Without manifests there are no rules: each change is an event.
	out, log, _ = does(t, NewTryCommand("v1"), "--env", "COUNTER", "--cache", cache, "--event", events, os.Args[0])
	for i, kind := range []string{"added", "updated", "updated", "updated", "updated", "updated", "updated", "deleted", "deleted"} {
		if want := fmt.Sprintf("event %d of 9: %s v1/nodes n1, rule try, id try/%d (", i+1, kind, i+1); !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s%s", want, out, log)
		}
	}
	if n := strings.Count(out, "\n  old      "); n != 6 {
		t.Errorf("%d events have an old state:\n%s", n, out)
	}

	// A recording is made of changes, and of lines that are none.
	write(events, `{"type":"RECORDING","time":"2026-01-02T03:04:05Z","selections":[{"resource":"v1/nodes"}]}`+"\n", change("ADDED", 2, "web", ""),
		`{"type":"LISTED"}{"type":"BOOKMARK","object":{"kind":"Node"}}`)
	if out, log, err = does(t, NewTryCommand("v1"), "-f", manifests, "--event", events); err != nil || !strings.Contains(out, "event 1 of 1: added v1/nodes n1") {
		t.Errorf("%v: %s%s", err, out, log)
	}

	write(events, change("MODIFIED", 2, "web", ""))
	if _, _, err = does(t, NewTryCommand("v1"), "-f", manifests, "--event", events); err == nil ||
		!strings.Contains(err.Error(), ":1: Node n1 is MODIFIED, and nothing before it has its old state") {
		t.Errorf("got %v", err)
	}
}

// What is no event is said in terms of the file.
func TestNoEvent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	for text, want := range map[string]string{
		"A":                             ":1: not an event. An event is what the log builtin writes",
		"[1]":                           ":1: not an event. An event is what the log builtin writes",
		`{"event": 1}`:                  `:1: not an event: its field "event" cannot be a number`,
		`{"metadata": "x"}`:             `:1: not an event: its field "metadata" cannot be a string`,
		`{"verb": "x"}`:                 `:1: not an event: it has no field "event". An event is`,
		`{"event": "add", "name": "a"}`: `:1: not an event: its event is "add": want added, updated, deleted, synced`,
		`{"event": "added", "name": "a", "attemp": 3}`:   `:1: not an event: it has no field "attemp"; did you mean attempt?`,
		`{"event": "added", "name": "a", "items": [{}]}`: `:1: not an event: items[0]: its event is "": want added`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := does(t, NewTryCommand("v1"), "--event", file, "true"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
