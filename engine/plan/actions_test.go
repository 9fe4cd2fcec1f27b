package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

const secrets = `resource: v1/secrets, keep: needed`

// spaces is a source of namespaces. Its index all has every namespace under one value.
const spaces = `resource: v1/namespaces, keep: needed, indexes: {all: '"yes"', byName: object.metadata.name}`

// acting returns the manifest of a rule with actions. Its lines count from 1.
func acting(actions string) string {
	return "apiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: a}\nspec:\n  source: secrets\n  actions:\n" + actions + "---\n"
}

// looking decodes only the paths that the rule's actions say they read.
type looking struct {
	rule    *Rule
	objects map[string][]*object.Object // by source
}

func (l looking) Now() time.Time                 { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
func (l looking) Tree(o *object.Object) any      { return o.Decode(l.rule.Actions.Paths()) }
func (l looking) Old(o *object.Object) any       { return l.Tree(o) }
func (l looking) ByIndex(_, _ string) expr.Found { return expr.Found{} }

func (l looking) Lookup(source, _, _ string) expr.Found {
	var trees []any
	for _, o := range l.objects[source] {
		trees = append(trees, o.Decode(l.rule.Actions.Lookups()[source]))
	}
	return expr.Found{Len: len(trees), Trees: slices.Values(trees)}
}

func objectOf(t *testing.T, text string) *object.Object {
	t.Helper()
	o, err := object.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestActions copies the Secrets of one namespace into all others, and covers the other verbs.
func TestActions(t *testing.T) {
	p := mustCompile(t, source("secrets", secrets)+source("spaces", spaces)+acting(`
  - forEach: lookup("spaces.all", "yes")
    if: item.metadata.name != object.metadata.namespace
    apply:
      resource: v1/secrets
      object:
        metadata:
          name: ${object.metadata.name}
          namespace: "${item.metadata.name}"
          annotations:
            example.com/copied: |
              from ${object.metadata.namespace} at ${now()}
              in $${braces}
        data: "${object.data}"
        type: ${object.type}
        immutable: true
        large: 12345678901234567890
        nothing: null
  - patch: {merge: {metadata: {labels: {quarantine: "yes", old: null}}}}
  - patch:
      resource: v1/secrets/status
      uid: ${object.metadata.uid}
      json: [{op: add, path: /status/n, value: "${object.n}"}]
  - delete: {}
  - delete: {resource: batch/v1/jobs, namespace: shop, name: "${object.metadata.name}-job"}
  - event: {reason: Copied, message: "${len(lookup('spaces.all', 'yes'))} copies of ${object.n}", warning: true}
`)+strings.NewReplacer("name: a}", "name: b}", "  source", "  prune: true\n  ownChanges: deliver\n  source").Replace(acting("  - apply: {resource: v1/configmaps, object: {metadata: {name: x, namespace: y}, data: '${ {a: object.b.c} }'}}\n")))
	r := p.Rules[0]
	look := looking{r, map[string][]*object.Object{"spaces": {
		objectOf(t, `{"metadata":{"name":"shop"},"spec":{"a":1}}`), objectOf(t, `{"metadata":{"name":"pay"},"spec":{"a":1}}`), objectOf(t, `{"metadata":{"name":"web"}}`),
	}}}
	change := objectOf(t, `{"metadata":{"name":"tls","namespace":"shop","uid":"u1","resourceVersion":"7"},"data":{"key":"aGk="},"n":9007199254740993}`)
	steps, err := r.Actions.Evaluate(delta.Delta{Type: delta.Added, Object: change}, nil, look)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 6 || len(steps[0].Actions) != 2 {
		t.Errorf("%d steps, the first with %d actions; want one per template that makes any", len(steps), len(steps[0].Actions))
	}
	var got []string
	var actions []handler.Action
	for i, s := range steps {
		if want := fmt.Sprintf("actions[%d]", i); s.Label != want {
			t.Errorf("a step is labelled %q, want %q", s.Label, want)
		}
		actions = append(actions, s.Actions...)
	}
	for _, a := range actions {
		got = append(got, strings.TrimSpace(fmt.Sprint(a.Verb, " ", schema.GroupVersionResource(a.Resource).GroupVersion(), " ", a.Resource.Resource, " ", a.Subresource, " ", a.Namespace, "/", a.Name, " ",
			a.UID, string(a.Object), a.PatchType, string(a.Patch), a.Reason, " ", a.Message)))
	}
	copied := func(namespace string) string {
		return `apply v1 secrets  ` + namespace + `/tls {"metadata":{"name":"tls","namespace":"` + namespace + `","annotations":{"example.com/copied":` +
			`"from shop at 2026-01-02T03:04:05Z\nin ${braces}\n"}},"data":{"key":"aGk="},"immutable":true,"large":12345678901234567890,"nothing":null}`
	}
	if diff := cmp.Diff([]string{
		copied("pay"), copied("web"),
		`patch v1 secrets  shop/tls application/merge-patch+json{"metadata":{"labels":{"quarantine":"yes","old":null}}}`,
		`patch v1 secrets status shop/tls u1application/json-patch+json[{"op":"add","path":"/status/n","value":9007199254740993}]`,
		`delete v1 secrets  shop/tls`,
		`delete batch/v1 jobs  shop/tls-job`,
		`event v1 secrets  shop/tls Copied 3 copies of 9007199254740993`,
	}, got); diff != "" {
		t.Error(diff)
	}
	if r.Handler != "" || r.OwnChanges || r.Prune != nil || r.Actions.Prune || r.Actions.Deleted || len(p.Handlers) != 0 {
		t.Errorf("the rule is %+v", r)
	}
	if len(r.LooksInto) != 1 || r.LooksInto[0].Name != "spaces" {
		t.Errorf("the rule looks into %v, want spaces alone", r.LooksInto)
	}
	second := p.Rules[1]
	if !second.OwnChanges || !second.Actions.Prune || len(second.Prune) != 1 || second.Prune[0].Resource != "configmaps" {
		t.Errorf("the second rule is %+v", second)
	}
	const identity = "metadata.labels metadata.name metadata.namespace metadata.resourceVersion metadata.uid"
	kept := map[string]string{}
	for _, informer := range p.Informers {
		kept[informer.Resource.Resource] = informer.Keep.String()
	}
	if diff := cmp.Diff(map[string]string{"secrets": "b.c data " + identity + " n type", "namespaces": ". " + identity}, kept); diff != "" {
		t.Error(diff)
	}
}

// A mistake in an expression has the position where the author wrote it, wherever in the template
// that is.
func TestMistakesOfActions(t *testing.T) {
	for name, c := range map[string]struct{ actions, want string }{
		"in a string":         {`  - delete: {name: "a-${objekt.x}-b"}`, `7:25: unknown name "objekt"; did you mean object?`},
		"in quotes, escaped":  {`  - delete: {name: "\u0061\"${object.a +}"}`, `7:41: unexpected end of the expression`},
		"in a plain scalar":   {"  - delete:\n      name: a ${objekt}", `8:17: unknown name "objekt"`},
		"in a block":          {"  - apply:\n      resource: v1/secrets\n      object:\n        metadata: {name: a}\n        data:\n          script: |\n            one\n            two ${upperr(object.a)}\n", `14:19: unknown function "upperr"; did you mean upper?`},
		"in a folded block":   {"  - patch:\n      merge:\n        a: >-\n          one\n          two ${objekt}\n", `11:17: unknown name "objekt"`},
		"not closed":          {`  - delete: {name: "é ${object.a"}`, `7:23: ${ is not closed: write } behind the expression, or $${ for the characters ${`},
		"item without a list": {`  - delete: {name: "${item.a}"}`, `7:23: item is an element of forEach, and means nothing outside of an action that has one`},
		"item in its list":    {`  - {forEach: item.a, delete: {name: a}}`, `7:15: item is an element of forEach`},
		"a list that fails":   {`  - {forEach: objekt.a, if: item.a, delete: {name: "${item.a}"}}`, `7:15: unknown name "objekt"`},
		"if":                  {`  - {if: 3, delete: {}}`, `7:10: the expression gives an int, not true or false`},
		"an unknown index":    {`  - {forEach: 'lookup("spaces.al", "x")', delete: {name: a}}`, `7:23: source spaces has no index "al"`},
		"a key":               {`  - patch: {merge: {metadata: {labels: {"${object.a}": "b"}}}}`, `7:42: a key cannot have expressions in it`},
		"a key not closed":    {`  - patch: {merge: {"a${": "b"}}`, `7:22: a key cannot have expressions in it`},
		"a forgotten ${":      {`  - delete: {name: object.metadata.name}`, `7:20: this is the text itself; for what the expression gives write "${object.metadata.name}"`},
		"a forgotten ${ deep": {`  - patch: {merge: {a: [{b: old.spec}]}}`, `7:29: this is the text itself`},
		"the same of an item": {`  - {forEach: object.a, patch: {merge: {a: [{b: item.metadata.name}]}}}`, `7:49: this is the text itself`},
		"a template of Go":    {`  - delete: {name: "{{ .object.metadata.name }}"}`, `7:21: {{ }} is the syntax of Go and Helm: write object.metadata.name in an expression, and "${object.metadata.name}" in a text`},
		"a shell's brackets":  {`  - {forEach: object.a, delete: {name: $(item.metadata.name)}}`, `7:40: $( ) is the syntax of Kubernetes and Tekton: write item.`},
		"a path as a key":     {`  - patch: {merge: {spec.template.metadata: {a: b}}}`, `7:21: a key is one field, and no path: nest spec: {template: …} instead`},
		"a path in an object": {`  - apply: {resource: v1/pods, object: {metadata: {name: a}, metadata.labels: {a: b}}}`, `7:62: a key is one field, and no path`},
		"another resource":    {`  - delete: {resource: v1/pods, namespace: a}`, `7:24: delete needs a name here, and a namespace if the resource has them: the rule's objects are v1/secrets (without a resource`},
		"an apiVersion":       {`  - create: {resource: apps/v1/deployments, object: {apiVersion: v1, metadata: {name: a}}}`, `7:54: the resource apps/v1/deployments has the apiVersion apps/v1: leave it out here, and kind as well`},
		"a constant uid":      {`  - delete: {uid: item.metadata.uid}`, `7:19: a uid differs from object to object: write an expression, as "${item.metadata.uid}"`},
		"a uid without ${":    {`  - {forEach: object.a, delete: {name: a, uid: item.metadata.uid}}`, `7:48: this is the text itself`},
		"a number as version": {`  - delete: {resourceVersion: 5}`, `7:31: a resourceVersion differs from object to object`},
		"a constant version":  {`  - delete: {resourceVersion: "5"}`, `7:32: a resourceVersion differs from object to object`},
	} {
		t.Run(name, func(t *testing.T) {
			_, mistakes := compile(t, acting(c.actions+"\n")+source("secrets", secrets)+source("spaces", spaces))
			if len(mistakes) != 1 || !strings.Contains(mistakes[0].Position.String()+": "+mistakes[0].Message, c.want) {
				t.Errorf("%v\nwant %s", mistakes, c.want)
			}
		})
	}
}

// A text without an unescaped ${ is not an expression, whatever it looks like.
func TestTextsThatLookLikeExpressions(t *testing.T) {
	for _, text := range []string{"object", "item", "event", "object.json", "item.yaml", "object.metadata is", "lookup", "5", "a.b", `$${object.metadata.name}`} {
		p := mustCompile(t, source("secrets", secrets)+acting(`  - patch: {merge: {a: `+fmt.Sprintf("%q", text)+"}}\n"))
		want := `{"a":"` + strings.TrimPrefix(text, "$") + `"}`
		got, err := p.Rules[0].Actions.Evaluate(delta.Delta{Type: delta.Added, Object: objectOf(t, `{"metadata":{"name":"a"}}`)}, nil, looking{rule: p.Rules[0]})
		if err != nil || len(got) != 1 || string(got[0].Actions[0].Patch) != want || got[0].Actions[0].PatchType != handler.MergePatch {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// A merge patch with null removes a member, whether the null is a constant or an expression's nil.
func TestNilRemovesMembersInAMerge(t *testing.T) {
	p := mustCompile(t, source("secrets", secrets)+acting(`  - patch: {merge: {metadata: {labels: {zone: "${object.zone}", old: null}}, list: ["${object.no}", 1]}}
  - patch: {merge: "${object.no}"}
`))
	change := delta.Delta{Type: delta.Added, Object: objectOf(t, `{"metadata":{"name":"a"}}`)}
	actions := *p.Rules[0].Actions
	actions.Each = actions.Each[:1]
	got, err := actions.Evaluate(change, nil, looking{rule: p.Rules[0]})
	if want := `{"metadata":{"labels":{"zone":null,"old":null}},"list":[null,1]}`; err != nil || string(got[0].Actions[0].Patch) != want {
		t.Errorf("%+v, %v; want %s", got, err, want)
	}
	if _, err := p.Rules[0].Actions.Evaluate(change, nil, looking{rule: p.Rules[0]}); err == nil || err.Error() != "actions[1].patch.merge: it is nil" {
		t.Errorf("a merge that is nil as a whole: %v", err)
	}
}

func TestRequiredMembers(t *testing.T) {
	p := mustCompile(t, source("secrets", secrets)+acting(`  - {if: object.a == 1, apply: {resource: v1/pods, object: {metadata: {name: x, namespace: "${object.no}"}}}}
  - {if: object.a == 2, patch: {json: [{op: replace, path: /a, value: "${object.no}"}]}}
  - {if: object.a == 3, patch: {json: [{op: move, path: /a, from: "${object.no}"}]}}
`))
	for a, want := range map[int]string{
		1: "actions[0].apply.object.metadata.namespace: it is nil",
		2: "actions[1].patch.json[0].value: it is nil",
		3: "actions[2].patch.json[0].from: it is nil",
		4: "<nil>",
	} {
		change := objectOf(t, fmt.Sprintf(`{"metadata":{"name":"a"},"a":%d}`, a))
		if _, err := p.Rules[0].Actions.Evaluate(delta.Delta{Type: delta.Added, Object: change}, nil, looking{rule: p.Rules[0]}); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestDeletedEventsOfActions(t *testing.T) {
	for events, want := range map[string]bool{"": false, "events: [added, deleted], ": true, "events: [added], ": true} {
		p := mustCompile(t, source("secrets", secrets)+ruleOf("a", "source: secrets, "+events+"actions: [{delete: {}}]"))
		if p.Rules[0].Actions.Deleted != want {
			t.Errorf("%q: %v", events, !want)
		}
	}
}
