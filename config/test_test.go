package config

import (
	"encoding/json"
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
  - restart: {down: 1s, state: lost, history: lost}
  - relist: {history: kept}
  - answer: {rule: crash-looping, retry: {after: 5m, reason: busy}, times: 3}
  - answer: {handler: oncall, actions: [delete: {resource: v1/pods, name: web-1}]}
  - delete: {source: pods, namespace: shop, name: web-0}
    expect:
    - rule: crash-looping
      payload: {n: 3, seen: 2026-01-02T03:00:00Z, none: ~, text: "${a}", list: [true, 1.50]}
    exact: true
`)}})
	if err := mistakes.Err(); err != nil {
		t.Fatal(err)
	}
	want := Test{
		Name: "crashes", At: NewText("crashes"), Rules: []Text{NewText("crash-looping")},
		Start: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC),
		Steps: []Step{
			{
				Verb: StepApply, Source: "pods", Namespace: "shop", Name: "web-0",
				Body: json.RawMessage(`{"metadata":{"name":"web-0","namespace":"shop"},"spec":{"replicas":3}}`),
			},
			{Verb: StepAfter, After: 4*time.Minute + 59*time.Second, Expect: &Expect{}},
			{Verb: StepPatch, Source: "pods", Namespace: "shop", Name: "web-0", Body: json.RawMessage(`{"status":{"phase":"Pending"}}`)},
			{Verb: StepRestart, After: time.Second, StateLost: true, HistoryLost: true},
			{Verb: StepRelist},
			{Verb: StepAnswer, Answer: &TestAnswer{Rule: "crash-looping", Times: 3, Retry: true, RetryAfter: 5 * time.Minute, Reason: "busy"}},
			{Verb: StepAnswer, Answer: &TestAnswer{Handler: "oncall", Times: 1, Actions: []Action{{
				Verb: Delete, At: NewText("delete"), ResourceAt: NewText("v1/pods"),
				Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
				Name:     &Value{Kind: ValueTemplate, Text: NewText("web-1")},
			}}}},
			{Verb: StepDelete, Source: "pods", Namespace: "shop", Name: "web-0", Expect: &Expect{Exact: true}},
		},
	}
	last := got.Tests[0].Steps[7].Expect
	if text, want := string(last.Events[0].Literal()),
		`{"rule":"crash-looping","payload":{"n":3,"seen":"2026-01-02T03:00:00Z","none":null,"text":"${a}","list":[true,1.50]}}`; text != want {
		t.Errorf("the event is %s, want %s", text, want)
	}
	if at, want := last.Events[0].At.Position(0).String(), "rules_test.yaml:18:7"; at != want {
		t.Errorf("the event is at %s, want %s", at, want)
	}
	last.Events = nil
	if diff := cmp.Diff([]Test{want}, got.Tests, sameText); diff != "" {
		t.Errorf("tests (-want +got):\n%s", diff)
	}
}

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
