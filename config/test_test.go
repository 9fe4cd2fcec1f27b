package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTest(t *testing.T) {
	got, mistakes := Parse([]File{{Path: "rules.yaml", Data: []byte(manifests)}, {Path: "rules_test.yaml", Data: []byte(`
apiVersion: informd.dev/v1alpha1
kind: Test
metadata: {name: crashes}
spec:
  rules: [crash-looping]
  start: 2026-01-02T03:00:00Z
  steps:
  - apply: {source: pods, object: {metadata: {name: web-0, namespace: shop}, spec: {replicas: 3}}}
  - {after: 4m59s, expect: []}
  - patch: {source: pods, namespace: shop, name: web-0, merge: {status: {phase: Pending}}}
  - restart: {down: 1s, state: lost, history: lost, clock: -1h}
  - relist: {history: kept, meanwhile: [delete: {source: pods, name: web-1}]}
  - answer: {rule: crash-looping, retry: {after: 5m, reason: busy}, times: 3}
  - answer: {handler: oncall, actions: [delete: {resource: v1/pods, name: web-1}]}
  - answer: {rule: crash-looping, target: {resource: v1/pods/status, namespace: shop, name: web-1}, reject: full}
  - delete: {source: pods, namespace: shop, name: web-0}
    expect:
    - rule: crash-looping
      payload: {n: 3, seen: 2026-01-02T03:00:00Z, none: ~, text: "${a}", list: [true, 1.50]}
    exact: true
`)}})
	if err := mistakes.Err(); err != nil {
		t.Fatal(err)
	}
	last := got.Tests[0].Steps[8].Expect
	want := Test{
		Name: "crashes", At: NewText("crashes"), Rules: []Text{NewText("crash-looping")},
		Start: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC),
		Steps: []Step{
			{
				Verb: StepApply, Source: "pods", Namespace: "shop", Name: "web-0",
				Body: body(`{"metadata":{"name":"web-0","namespace":"shop"},"spec":{"replicas":3}}`),
			},
			{Verb: StepAfter, After: 4*time.Minute + 59*time.Second, Expect: &Expect{Extent: got.Tests[0].Steps[1].Expect.Extent}},
			{Verb: StepPatch, Source: "pods", Namespace: "shop", Name: "web-0", Body: body(`{"status":{"phase":"Pending"}}`)},
			{Verb: StepRestart, After: time.Second, StateLost: true, HistoryLost: true, ClockSet: -time.Hour},
			{Verb: StepRelist, Meanwhile: []Step{{Verb: StepDelete, Source: "pods", Name: "web-1"}}},
			{Verb: StepAnswer, Answer: &TestAnswer{Rule: "crash-looping", Times: 3, Retry: true, RetryAfter: 5 * time.Minute, Reason: "busy"}},
			{Verb: StepAnswer, Answer: &TestAnswer{Handler: "oncall", Times: 1, Actions: []Action{{
				Verb: Delete, At: NewText("delete"), ResourceAt: NewText("v1/pods"),
				Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
				Name:     &Value{Kind: ValueTemplate, Text: NewText("web-1")},
			}}}},
			{Verb: StepAnswer, Answer: &TestAnswer{
				Rule: "crash-looping", Times: 1, Reject: true, Reason: "full",
				Target: &TestTarget{
					Resource:    schema.GroupVersionResource{Version: "v1", Resource: "pods"},
					Subresource: "status", Namespace: "shop", Name: "web-1",
				},
			}},
			{Verb: StepDelete, Source: "pods", Namespace: "shop", Name: "web-0", Expect: &Expect{Exact: true, Extent: last.Extent}},
		},
	}
	if text, want := string(last.Events[0].Literal()),
		`{"rule":"crash-looping","payload":{"n":3,"seen":"2026-01-02T03:00:00Z","none":null,"text":"${a}","list":[true,1.50]}}`; text != want {
		t.Errorf("the event is %s, want %s", text, want)
	}
	if at, want := last.Events[0].At.Position(0).String(), "rules_test.yaml:19:7"; at != want {
		t.Errorf("the event is at %s, want %s", at, want)
	}
	last.Events = nil
	literally := cmp.Transformer("literally", func(v Value) string { return string(v.Literal()) })
	if diff := cmp.Diff([]Test{want}, got.Tests, sameText, literally); diff != "" {
		t.Errorf("tests (-want +got):\n%s", diff)
	}
}

func body(text string) *Value { return &Value{Kind: ValueConstant, JSON: json.RawMessage(text)} }

func TestStartOfATest(t *testing.T) {
	got, mistakes := Parse([]File{{Path: "a_test.yml", Data: []byte(
		"{apiVersion: informd.dev/v1alpha1, kind: Test, metadata: {name: a}, spec: {steps: [expect: []]}}")}})
	if err := mistakes.Err(); err != nil {
		t.Fatal(err)
	}
	if start := got.Tests[0].Start; !start.Equal(defaultStart) {
		t.Errorf("a test starts at %v", start)
	}
}

// The extent of an expect is what --update replaces.
func TestExtent(t *testing.T) {
	const head = "apiVersion: informd.dev/v1alpha1\nkind: Test\nmetadata: {name: a}\nspec:\n  steps:\n"
	for _, c := range []struct{ why, text, list string }{
		{"flow", "  - expect: [{name: a}, {name: b}]  # so\n", "[{name: a}, {name: b}]"},
		{"nothing", "  - {after: 5m, expect: []}\n", "[]"},
		{"brackets in texts", "  - expect: [{name: \"]\\\"}\"}, {name: 'it''s ]'}, {name: b]b'x}]\n", ""},
		{"brackets in quotes", "  - {expect: [{name: \"]\\\"}\"}, {name: 'it''s ]'}, {name: b'x}], exact: true}\n",
			"[{name: \"]\\\"}\"}, {name: 'it''s ]'}, {name: b'x}]"},
		{"quotes in texts", "  - {expect: [{payload: it's \"] }, {name: b}]}\n", ""},
		{"quotes within texts", "  - {expect: [{payload: it 's \"x \"}, {name: \"}\"}]}\n", "[{payload: it 's \"x \"}, {name: \"}\"}]"},
		{"over lines", "  - expect: [  # ]\n      {name: a}, # ]\n    ]\n  - expect: []\n", "[  # ]\n      {name: a}, # ]\n    ]"},
		{"block", "  - expect:\n    # two\n    - name: a\n      payload: |\n        x\n\n        # y\n    # another\n    - {name: b}\n\n    # the end\n  - expect: []\n",
			"- name: a\n      payload: |\n        x\n\n        # y\n    # another\n    - {name: b}"},
		{"block before a field", "  - expect:\n    - name: a\n    exact: true\n", "- name: a"},
		{"indented block", "  - expect:\n      - name: a\n      - name: b\n    exact: true\n", "- name: a\n      - name: b"},
		{"block at the end", "  - expect:\n    - name: a", "- name: a"},
	} {
		t.Run(c.why, func(t *testing.T) {
			text := head + c.text
			got, mistakes := Parse([]File{{Path: "a_test.yaml", Data: []byte(text)}})
			if c.list == "" {
				if len(mistakes) == 0 {
					t.Error("the text is expected to be mistaken")
				}
				return
			}
			if err := mistakes.Err(); err != nil {
				t.Fatal(err)
			}
			e := got.Tests[0].Steps[0].Expect.Extent
			if list := text[e.Start:e.End]; list != c.list || text[e.Key:e.Key+6] != "expect" {
				t.Errorf("%+v is %q, want %q", e, list, c.list)
			}
		})
	}
}

// Whatever a list looks like, another one takes its place.
func FuzzExtent(f *testing.F) {
	for _, list := range []string{
		"[{name: a}, {name: 'b]'}] # so\n", "[]\n", "\n  - {name: a}\n  - name: b\n    payload: |\n      x\n     # y\n  # z\n  exact: true\n",
		"[{payload: a \"b}, {payload: [\"]\", 'it''s', {a: 1}]}]\n", "\n    - payload: >-\n        x: [\n\n      name: a\n\n  # end\n",
	} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		parse := func(text string) (*Config, Mistakes) {
			return Parse([]File{{Path: "a_test.yaml", Data: []byte(text)}})
		}
		text := "apiVersion: informd.dev/v1alpha1\nkind: Test\nmetadata: {name: a}\nspec:\n  steps:\n  - expect: " + strings.ReplaceAll(list, "\n", "\n  ")
		before, mistakes := parse(text)
		if len(mistakes) > 0 || len(before.Tests) != 1 || len(before.Tests[0].Steps) == 0 || before.Tests[0].Steps[0].Expect == nil {
			return
		}
		e := before.Tests[0].Steps[0].Expect.Extent
		after, mistakes := parse(text[:e.Key] + "expect: [{name: other}]" + text[e.End:])
		if err := mistakes.Err(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		// The events themselves take their own place.
		var events []string
		for _, ev := range before.Tests[0].Steps[0].Expect.Events {
			events = append(events, ev.Source)
		}
		if !slices.Contains(events, "") && len(events) > 0 {
			own := "[" + strings.Join(events, ", ") + "]"
			if !e.IsFlow {
				line := strings.LastIndexAny(text[:e.Start], "\r\n") + 1
				own = "- " + strings.Join(events, "\n"+strings.Repeat(" ", e.Start-line)+"- ")
			}
			same, mistakes := parse(text[:e.Start] + own + text[e.End:])
			if err := mistakes.Err(); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			for i, ev := range same.Tests[0].Steps[0].Expect.Events {
				if want := before.Tests[0].Steps[0].Expect.Events[i].Literal(); string(ev.Literal()) != string(want) {
					t.Errorf("%q: %s instead of %s", text, ev.Literal(), want)
				}
			}
		}
		if got := after.Tests[0].Steps[0].Expect.Events; len(got) != 1 || len(after.Tests[0].Steps) != len(before.Tests[0].Steps) {
			t.Errorf("%q: %d events", text, len(got))
		}
	})
}

// An expected event that is as it must be stays in a list that --update writes.
func TestSourceOfAnEvent(t *testing.T) {
	const head = "apiVersion: informd.dev/v1alpha1\nkind: Test\nmetadata: {name: a}\nspec:\n  steps:\n"
	for _, c := range []struct{ why, text, source string }{
		{"flow", "  - expect: [{name: a, payload: {x: [1, \"]\"]}}, {name: b}]\n", `{name: a, payload: {x: [1, "]"]}}`},
		{"flow without braces", "  - expect: [name: a, {name: b}]\n", ""},
		{"flow over lines", "  - expect: [{name: a,\n    event: added}]\n", ""},
		{"flow in a block", "  - expect:\n    - {name: a}  # so\n    # b\n    - {name: b}\n", "{name: a}  # so"},
		{"block", "  - expect:\n    - name: a # so\n      payload: |\n        x\n\n        # y\n    # b\n    - {name: b}\n",
			"name: a # so\n      payload: |\n        x\n\n        # y"},
		{"block of one line", "  - expect:\n    -   name: a\n    - {name: b}\n", "name: a"},
		{"block that is indented otherwise", "  - expect:\n    -   name: a\n        event: added\n    - {name: b}\n", ""},
		{"block below its dash", "  - expect:\n    -\n      name: a\n      event: added\n", ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			got, mistakes := Parse([]File{{Path: "a_test.yaml", Data: []byte(head + c.text)}})
			if err := mistakes.Err(); err != nil {
				t.Fatal(err)
			}
			if source := got.Tests[0].Steps[0].Expect.Events[0].Source; source != c.source {
				t.Errorf("%q, want %q", source, c.source)
			}
		})
	}
}
