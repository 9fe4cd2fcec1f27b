package config

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// manifests has one manifest of each kind, with every field set.
const manifests = `
apiVersion: informd.dev/v1alpha1
kind: Source                        # what is watched
metadata: {name: pods}
spec:
  resource: v1/pods
  namespaces: [shop, pay]
  labelSelector: tier in (web), app=shop
  fieldSelector: status.phase!=Succeeded,metadata.name=x
  resync: 10m
  keep: needed
  indexes:
    byNode: object.spec.nodeName
    byImage: map(object.spec.containers, .image)
---
apiVersion: informd.dev/v1alpha1
kind: Handler                       # who receives events
metadata: {name: oncall}
spec:
  command: [./oncall, --verbose, ""]
  sha256: 9F86D081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  env: [PAGER_TOKEN]
  config: {channel: "#ops", ids: [9007199254740993, 18446744073709551615, 0x10, 1.50, 1e3], since: 2026-01-01, none: ~, on: yes, "1": true}
  concurrency: 16
  timeout: 1m30s
  retry: {attempts: 3, backoff: 2s, maxBackoff: 1m}
  user: nobody
  limits: {memory: 256Mi, cpu: 500m, files: 256, processes: 64}
  sandbox: true
  files: {read: [/etc/oncall, ./templates], write: [/var/lib/oncall]}
  network: [443, 53]
---
apiVersion: informd.dev/v1alpha1
kind: Rule                          # which changes go to whom
metadata: {name: crash-looping}
spec:
  source: pods
  where: object.metadata.namespace != "kube-system"
  events: [updated, added]
  when: |
    any(object.status.containerStatuses, .restartCount > 5)
  delivery: every
  resync: 0
  payload: {pod: object.metadata.name, n: 3, list: [true, {a: object}], empty: {}}
  handler: oncall
`

func TestEveryField(t *testing.T) {
	got, mistakes := Parse([]File{{Path: "rules/all.yaml", Data: []byte(manifests)}})
	if err := mistakes.Err(); err != nil {
		t.Fatal(err)
	}
	expr := func(s string) *Value { return &Value{Text: NewText(s)} }
	want := &Config{
		Sources: []Source{{
			Name:          "pods",
			At:            NewText("pods"),
			Resource:      schema.GroupVersionResource{Version: "v1", Resource: "pods"},
			ResourceAt:    NewText("v1/pods"),
			Namespaces:    []string{"shop", "pay"},
			LabelSelector: "app=shop,tier=web",
			FieldSelector: "metadata.name=x,status.phase!=Succeeded",
			FieldsAt:      NewText("status.phase!=Succeeded,metadata.name=x"),
			Resync:        10 * time.Minute,
			Keep:          Needed,
			Indexes: []Index{
				{Name: "byImage", Expr: NewText("map(object.spec.containers, .image)")},
				{Name: "byNode", Expr: NewText("object.spec.nodeName")},
			},
		}},
		Handlers: []Handler{{
			Name:        "oncall",
			At:          NewText("oncall"),
			Command:     []string{"rules/oncall", "--verbose", ""},
			SHA256:      "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
			Env:         []string{"PAGER_TOKEN"},
			Config:      json.RawMessage(`{"channel":"#ops","ids":[9007199254740993,18446744073709551615,16,1.50,1e3],"since":"2026-01-01","none":null,"on":"yes","1":true}`),
			Concurrency: 16,
			Timeout:     90 * time.Second,
			Retry:       Retry{Attempts: 3, Backoff: 2 * time.Second, MaxBackoff: time.Minute},
			User:        "nobody",
			Limits:      Limits{Memory: 256 << 20, CPU: 500, Files: 256, Processes: 64},
			Sandbox: &Sandbox{
				Read:    []string{"/etc/oncall", "rules/templates"},
				Write:   []string{"/var/lib/oncall"},
				Network: Network{Ports: []uint16{443, 53}},
			},
		}},
		Rules: []Rule{{
			Name:      "crash-looping",
			At:        NewText("crash-looping"),
			Source:    "pods",
			SourceAt:  NewText("pods"),
			Handler:   "oncall",
			HandlerAt: NewText("oncall"),
			Where:     NewText(`object.metadata.namespace != "kube-system"`),
			When:      NewText("any(object.status.containerStatuses, .restartCount > 5)\n"),
			Events:    []string{"updated", "added"},
			Delivery:  Every,
			Resync:    new(time.Duration),
			Payload: &Value{Kind: ValueMapping, Members: []Member{
				{Name: NewText("pod"), Value: expr("object.metadata.name")},
				{Name: NewText("n"), Value: expr("3")},
				{Name: NewText("list"), Value: &Value{Kind: ValueList, Items: []*Value{
					expr("true"),
					{Kind: ValueMapping, Members: []Member{{Name: NewText("a"), Value: expr("object")}}},
				}}},
				{Name: NewText("empty"), Value: &Value{Kind: ValueMapping}},
			}},
		}},
	}
	if diff := cmp.Diff(want, got, sameText); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// sameText compares the values of two Texts, not their positions.
var sameText = cmp.Comparer(func(a, b Text) bool { return a.String() == b.String() })

func TestDefaults(t *testing.T) {
	got, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(`
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: things}, spec: {resource: stable.example.com/v1beta1/things}}
---
{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: log}, spec: {builtin: log}}
---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: all}, spec: {source: things, handler: log}}
`)}})
	if err := mistakes.Err(); err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Sources: []Source{{
			Name: "things", At: NewText("things"),
			Resource:   schema.GroupVersionResource{Group: "stable.example.com", Version: "v1beta1", Resource: "things"},
			ResourceAt: NewText("stable.example.com/v1beta1/things"),
		}},
		Handlers: []Handler{{
			Name: "log", At: NewText("log"), Builtin: "log", Timeout: 30 * time.Second,
			Retry: Retry{Backoff: time.Second, MaxBackoff: 5 * time.Minute},
		}},
		Rules: []Rule{{
			Name: "all", At: NewText("all"),
			Source: "things", SourceAt: NewText("things"),
			Handler: "log", HandlerAt: NewText("log"),
			Events:    []string{"added", "updated", "deleted", "synced"},
			AllEvents: true,
		}},
	}
	if diff := cmp.Diff(want, got, sameText); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if s, ok := got.Source("things"); !ok || s.Name != "things" {
		t.Errorf("Source: %v %v", s, ok)
	}
	if _, ok := got.Handler("none"); ok {
		t.Error("Handler returns a handler named none, which the file does not have")
	}
}

func TestMaxBackoffFollowsBackoff(t *testing.T) {
	got, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(
		`{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: log}, spec: {builtin: log, retry: {backoff: 10m}}}`)}})
	if err := mistakes.Err(); err != nil {
		t.Fatal(err)
	}
	if r := got.Handlers[0].Retry; r.MaxBackoff != 10*time.Minute {
		t.Errorf("the default maxBackoff must not be below the backoff that the file sets: %+v", r)
	}
}

func TestCommandIsRelativeToItsFile(t *testing.T) {
	absolute := filepath.Join(t.TempDir(), "h")
	for _, c := range []struct{ file, command, want string }{
		{"all.yaml", "./oncall", "./oncall"}, // without the slash, exec would search $PATH
		{"rules/all.yaml", "./oncall", "rules/oncall"},
		{"rules/all.yaml", "../bin/oncall", "bin/oncall"},
		{"rules/all.yaml", "../oncall", "./oncall"},
		{"/etc/informd/all.yaml", "bin/oncall", "/etc/informd/bin/oncall"},
		{"/etc/informd/all.yaml", "oncall", "oncall"}, // exec searches $PATH
		{"rules/all.yaml", absolute, absolute},
	} {
		got, mistakes := Parse([]File{{Path: c.file, Data: []byte(
			"{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: a}, spec: {command: [" + c.command + "]}}")}})
		if err := mistakes.Err(); err != nil {
			t.Fatal(err)
		}
		if got := got.Handlers[0].Command[0]; got != c.want {
			t.Errorf("%s in %s: got %s, want %s", c.command, c.file, got, c.want)
		}
	}
}

// TestBrokenManifestsAreKept checks that Parse also returns what it could read of a broken
// manifest. The expression compiler adds its mistakes to the same report, so it needs every
// expression.
func TestBrokenManifestsAreKept(t *testing.T) {
	got, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(`
{apiVersion: v1, kind: Source, metadata: {name: A}, spec: {resource: x, indexes: {i: object.a}}}
---
{kind: Rule, spec: {where: object.b, when: [], payload: {p: object.c, q: ""}}}
`)}})
	if len(mistakes) == 0 {
		t.Fatal("no mistakes")
	}
	want := &Config{
		Sources: []Source{{Name: "A", At: NewText("A"), Indexes: []Index{{Name: "i", Expr: NewText("object.a")}}}},
		Rules: []Rule{{
			Where:     NewText("object.b"),
			Events:    []string{"added", "updated", "deleted", "synced"},
			AllEvents: true,
			Payload: &Value{Kind: ValueMapping, Members: []Member{
				{Name: NewText("p"), Value: &Value{Text: NewText("object.c")}},
			}},
		}},
	}
	if diff := cmp.Diff(want, got, sameText); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestFilesOfAllShapes(t *testing.T) {
	const log = "apiVersion: informd.dev/v1alpha1\nkind: Handler\nmetadata: {name: log}\nspec: {builtin: log}\n"
	for name, text := range map[string]string{
		"byte order mark":    "\ufeff" + log,
		"CRLF":               strings.ReplaceAll(log, "\n", "\r\n"),
		"no last line break": strings.TrimSuffix(log, "\n"),
		"directive":          "# about\n%YAML 1.1\n---\n" + log,
		"end marker":         log + "...\n# nothing\n",
		"empty documents":    "---\n---\n# comment\n---\n" + log + "---\nnull\n---\n",
		"JSON":               `{"apiVersion": "informd.dev/v1alpha1", "kind": "Handler", "metadata": {"name": "log"}, "spec": {"builtin": "log"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(text)}})
			if err := mistakes.Err(); err != nil {
				t.Fatal(err)
			}
			if len(got.Handlers) != 1 {
				t.Errorf("%d handlers", len(got.Handlers))
			}
		})
	}
}

func TestRepeatedPathIsReadOnce(t *testing.T) {
	f := File{Path: "a.yaml", Data: []byte(manifests)}
	got, mistakes := Parse([]File{f, f})
	if err := mistakes.Err(); err != nil || len(got.Rules) != 1 {
		t.Errorf("%d rules, %v", len(got.Rules), err)
	}
}

func TestNoFiles(t *testing.T) {
	_, mistakes := Parse(nil)
	if got, want := mistakes.Error(), "no manifest: there is no file to read"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
