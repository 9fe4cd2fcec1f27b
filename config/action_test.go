package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestGrants(t *testing.T) {
	got, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(`
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: a}
spec:
  builtin: log
  access:
    write:
    - {resource: v1/pods, verbs: [patch, delete, event], namespaces: [shop], names: ["web-*", "db-[0-9]"]}
    - {resource: apps/v1/deployments/status, verbs: [apply, patch]}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: b}
spec:
  address: dns:///b:1
  tls: {ca: a, cert: a, key: a}
  access: {write: [{resource: v1/nodes, verbs: [create]}]}
---
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: c}
spec: {builtin: log, access: {}}
`)}})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	var grants [][]Grant
	var at []string
	for _, h := range got.Handlers {
		for i := range h.Write {
			at = append(at, h.Write[i].At.String())
			h.Write[i].At = Text{}
		}
		grants = append(grants, h.Write)
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	if diff := cmp.Diff([][]Grant{
		{
			{Resource: pods, Verbs: []string{Patch, Delete, Event}, Namespaces: []string{"shop"}, Names: []string{"web-*", "db-[0-9]"}},
			{Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Subresource: "status", Verbs: []string{Apply, Patch}},
		},
		{{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Verbs: []string{Create}}},
		nil,
	}, grants, sameText); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"v1/pods", "apps/v1/deployments/status", "v1/nodes"}, at); diff != "" {
		t.Error(diff)
	}
}

// A rule with actions needs no handler. A mistake in one action does not hide the other actions.
func TestActions(t *testing.T) {
	got, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(`
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: s}
spec: {resource: v1/pods}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: a}
spec:
  source: s
  ownChanges: deliver
  prune: true
  actions:
  - {forEach: object.list, if: item.a, apply: {resource: v1/pods/status, object: {metadata: {name: a}}}}
  - {apply: {resource: v1/configmaps, object: "${object.map}"}}
  - {event: {reason: A, message: "${object.b}", warning: true, name: n}}
  - patch:
      json: [{op: test, path: /a, value: null}, {op: remove, path: "${object.a}"}, {op: "${object.op}", path: /}]
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: b}
spec: {source: s, actions: [{delete: {}}]}
`)}})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	r := got.Rules[0]
	var b strings.Builder
	for _, a := range r.Actions {
		b.WriteString(a.Verb + " " + a.At.String() + " " + a.Resource.Resource + " " + a.Subresource + " " + a.ForEach.String() + " " + a.If.String() + "|" + written(a.Name) +
			"|" + written(a.Object) + "|" + written(a.Patch) + "|" + written(a.Reason) + "|" + written(a.Message) + "\n")
	}
	const want = `apply apply pods status object.list item.a||{metadata:{name:'a'}}|||
apply apply configmaps   ||'${object.map}'|||
event event    |'n'|||'A'|'${object.b}'
patch patch    |||[{op:'test',path:'/a',value:null}{op:'remove',path:'${object.a}'}{op:'${object.op}',path:'/'}]||
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	if !r.Prune || !r.OwnChanges || r.Handler != "" || !r.HandlerAt.IsZero() || !r.Actions[2].Warning || !r.Actions[3].JSONPatch || r.Actions[0].JSONPatch {
		t.Errorf("the rule is %+v", r)
	}
	if r := got.Rules[1]; r.Prune || r.OwnChanges || len(r.Actions) != 1 {
		t.Errorf("the second rule is %+v", r)
	}
}

// written abbreviates a template.
func written(t *Value) string {
	switch {
	case t == nil:
		return ""
	case t.Kind == ValueConstant:
		return string(t.JSON)
	case t.Kind == ValueTemplate:
		return "'" + t.Text.String() + "'"
	}
	var parts []string
	for _, f := range t.Members {
		parts = append(parts, f.Name.String()+":"+written(f.Value))
	}
	if t.Kind == ValueMapping {
		return "{" + strings.Join(parts, ",") + "}"
	}
	for _, item := range t.Items {
		parts = append(parts, written(item))
	}
	return "[" + strings.Join(parts, "") + "]"
}

func TestActionsAreBounded(t *testing.T) {
	for n, want := range map[int]string{
		64: "",
		65: "spec.actions has 65 elements, more than 64",
	} {
		_, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(`{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: s}, spec: {resource: v1/pods}}
---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: a}, spec: {source: s, actions: [` + strings.Repeat("{delete: {}},", n) + `]}}`)}})
		switch {
		case want == "" && len(mistakes) > 0, want != "" && (len(mistakes) != 1 || !strings.Contains(mistakes[0].Message, want)):
			t.Errorf("%d: %v", n, mistakes)
		}
	}
}
