package rule

import (
	"encoding/json"
	"fmt"
	"maps"
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

var (
	podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	mapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	options     = expr.Options{Scope: expr.Payload, Indexes: []string{"byTier"}, Sources: map[string][]string{"nodes": {"byName"}}}
)

// templated makes a template from JSON, whose strings may hold expressions.
func templated(t testing.TB, text string, o expr.Options) *Template {
	t.Helper()
	var make func(v any) *Template
	make = func(v any) *Template {
		switch v := v.(type) {
		case string:
			p, literal, err := expr.CompileTemplate(v, o)
			if err != nil {
				t.Fatal(err)
			}
			if p != nil {
				return &Template{Program: p}
			}
			return Constant(literal)
		case []any:
			out := &Template{Items: []*Template{}}
			for _, item := range v {
				out.Items = append(out.Items, make(item))
			}
			return out
		case map[string]any:
			out := &Template{Members: []Member{}}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				out.Members = append(out.Members, Member{Name: key, Value: make(v[key])})
			}
			return out
		}
		constant, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return &Template{JSON: constant}
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return make(v)
}

// applying returns an action that applies an object.
func applying(t testing.TB, object string) ActionTemplate {
	return ActionTemplate{Verb: "apply", Resource: mapResource, Elsewhere: true, Object: templated(t, object, options)}
}

// forEach returns an action that applies one object for each element of list. of is the template of
// the object.
func forEach(t testing.TB, list, of string) ActionTemplate {
	t.Helper()
	o := options
	o.Scope = expr.ForEach
	items, err := expr.Compile(list, o)
	if err != nil {
		t.Fatal(err)
	}
	with := options
	with.Item = items
	return ActionTemplate{Verb: "apply", Resource: mapResource, Elsewhere: true, ForEach: items, Object: templated(t, of, with)}
}

// joined forgets which step an action belongs to.
func joined(steps []Step, err error) (actions []handler.Action, _ error) {
	for _, s := range steps {
		actions = append(actions, s.Actions...)
	}
	return actions, err
}

func evaluate(t testing.TB, d delta.Delta, each ...ActionTemplate) ([]handler.Action, error) {
	t.Helper()
	a := Actions{Each: each}
	for i := range a.Each {
		a.Each[i].Label = fmt.Sprintf("actions[%d]", i)
	}
	return joined(a.Evaluate(d, nil, everything{d.Object, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}))
}

func added(t testing.TB, text string) delta.Delta {
	t.Helper()
	o, err := object.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return delta.Delta{Type: delta.Added, Object: o}
}

func TestObjectsOfActions(t *testing.T) {
	change := added(t, `{"metadata":{"name":"web-0","namespace":"shop","uid":"u"},"spec":{"n":9007199254740993,"f":1.5,"yes":true,"list":["a","b"],"map":{"k":"<&>"},"none":null}}`)
	for _, test := range []struct{ why, object, want string }{
		{"constants", `{"metadata":{"name":"a"},"data":{"n":12345678901234567890,"f":1.50,"t":true,"z":null,"s":"<&>ä","l":[],"m":{}}}`,
			`{"data":{"f":1.50,"l":[],"m":{},"n":12345678901234567890,"s":"<&>ä","t":true,"z":null},"metadata":{"name":"a"}}`},
		{"values that keep their type", `{"metadata":{"name":"a"},"data":{"a":"${object.spec.n}","b":"${object.spec.f}","c":"${object.spec.yes}","d":"${object.spec.list}","e":"${object.spec.map}"}}`,
			`{"data":{"a":9007199254740993,"b":1.5,"c":true,"d":["a","b"],"e":{"k":"<&>"}},"metadata":{"name":"a"}}`},
		{"values within strings", `{"metadata":{"name":"a-${object.metadata.name}"},"data":{"a":"n=${object.spec.n} f=${object.spec.f} ${object.spec.yes} at ${now()}"}}`,
			`{"data":{"a":"n=9007199254740993 f=1.5 true at 2026-01-02T03:04:05Z"},"metadata":{"name":"a-web-0"}}`},
		{"members that are nil", `{"metadata":{"name":"a"},"a":"${object.no}","b":{"c":"${object.no}"},"d":1,"e":"${object.spec.none}"}`,
			`{"b":{},"d":1,"metadata":{"name":"a"}}`},
		{"all of a list but what is nil", `{"metadata":{"name":"a"},"l":["${object.no}",1,"${object.no}","${object.spec.n}","${object.no}"],"k":["${object.no}"]}`,
			`{"k":[],"l":[1,9007199254740993],"metadata":{"name":"a"}}`},
		{"a whole object", `"${ {metadata: {name: \"a\", namespace: \"b\"}, spec: object.spec.list} }"`,
			`{"metadata":{"name":"a","namespace":"b"},"spec":["a","b"]}`},
		{"metadata as a whole", `{"metadata":"${ {name: \"a\"} }"}`, `{"metadata":{"name":"a"}}`},
	} {
		t.Run(test.why, func(t *testing.T) {
			got, err := evaluate(t, change, applying(t, test.object))
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || string(got[0].Object) != test.want {
				t.Errorf("%s\nwant %s", got[0].Object, test.want)
			}
			if !strings.HasPrefix(got[0].Name, "a") || got[0].UID != "" || got[0].ResourceVersion != "" {
				t.Errorf("it is %+v", got[0])
			}
		})
	}
}

func TestTargetsOfActions(t *testing.T) {
	change := added(t, `{"metadata":{"name":"web-0","namespace":"shop"},"n":5}`)
	text := func(s string) *Template { return templated(t, s, options) }
	patch := text(`{"a":"${object.n}"}`)
	for _, test := range []struct {
		why  string
		of   ActionTemplate
		want handler.Action
	}{
		{"the change's own", ActionTemplate{Verb: "patch", Resource: podResource, PatchType: handler.MergePatch, Patch: patch},
			handler.Action{Verb: "patch", Resource: handler.Resource(podResource), Namespace: "shop", Name: "web-0", PatchType: handler.MergePatch, Patch: json.RawMessage(`{"a":5}`)}},
		{"its status", ActionTemplate{Verb: "patch", Resource: podResource, Subresource: "status", PatchType: handler.JSONPatch, Patch: text(`[{"op":"remove","path":"/a"}]`)},
			handler.Action{Verb: "patch", Resource: handler.Resource(podResource), Subresource: "status", Namespace: "shop", Name: "web-0", PatchType: handler.JSONPatch, Patch: json.RawMessage(`[{"op":"remove","path":"/a"}]`)}},
		{"another in its namespace", ActionTemplate{Verb: "delete", Resource: podResource, Name: text(`"x-${object.n}"`)},
			handler.Action{Verb: "delete", Resource: handler.Resource(podResource), Namespace: "shop", Name: "x-5"}},
		{"of its name in another namespace", ActionTemplate{Verb: "delete", Resource: podResource, Namespace: text(`"pay"`)},
			handler.Action{Verb: "delete", Resource: handler.Resource(podResource), Namespace: "pay", Name: "web-0"}},
		{"in no namespace", ActionTemplate{Verb: "delete", Resource: podResource, Namespace: text(`""`)},
			handler.Action{Verb: "delete", Resource: handler.Resource(podResource), Name: "web-0"}},
		{"of another resource, in no namespace", ActionTemplate{Verb: "delete", Resource: mapResource, Elsewhere: true, Name: text(`"a"`)},
			handler.Action{Verb: "delete", Resource: handler.Resource(mapResource), Name: "a"}},
		{"by uid and version", ActionTemplate{Verb: "delete", Resource: podResource, UID: text(`"${\"u\"}"`), ResourceVersion: text(`"${object.n}"`)},
			handler.Action{Verb: "delete", Resource: handler.Resource(podResource), Namespace: "shop", Name: "web-0", UID: "u", ResourceVersion: "5"}},
		{"an event", ActionTemplate{Verb: "event", Resource: podResource, Reason: text(`"Seen"`), Message: text(`"${object.n}"`), Warning: true},
			handler.Action{Verb: "event", Resource: handler.Resource(podResource), Namespace: "shop", Name: "web-0", Reason: "Seen", Message: "5", Warning: true}},
		{"an event without a message", ActionTemplate{Verb: "event", Resource: podResource, Reason: text(`"Seen"`), Message: text(`""`)},
			handler.Action{Verb: "event", Resource: handler.Resource(podResource), Namespace: "shop", Name: "web-0", Reason: "Seen"}},
		{"a name that looks like a number", ActionTemplate{Verb: "delete", Resource: podResource, Name: text(`12345678901234567890`)},
			handler.Action{Verb: "delete", Resource: handler.Resource(podResource), Namespace: "shop", Name: "12345678901234567890"}},
	} {
		t.Run(test.why, func(t *testing.T) {
			got, err := evaluate(t, change, test.of)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]handler.Action{test.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestActionsThatCannotBeMade(t *testing.T) {
	const secret = "hunter2"
	change := added(t, `{"metadata":{"name":"web-0","namespace":"shop"},"s":"`+secret+`","m":{"`+secret+`":1},"l":["`+secret+`"],"n":5}`)
	text := func(s string) *Template { return templated(t, s, options) }
	required := func(of ActionTemplate) ActionTemplate {
		of.Object.Require("metadata", "name")
		of.Object.Require("metadata", "namespace")
		of.Object.Require("metadata", "not there", "at all")
		of.Object.Require("data", "x")
		return of
	}
	pasted := applying(t, `{"metadata":{"name":"${object.no}"}}`)
	pasted.IsManifest = true
	operation := text(`[{"op":"add","path":"/a","value":"${object.no}"}]`)
	operation.Items[0].Require("value")
	for _, test := range []struct {
		of   ActionTemplate
		want string
	}{
		{pasted, "actions[0].apply.metadata.name: it is nil"},
		{applying(t, `{"metadata":{"name":"${object.no}"}}`), "actions[0].apply.object.metadata.name: it is nil"},
		{required(applying(t, `{"metadata":{"name":"${object.no}"}}`)), "actions[0].apply.object.metadata.name: it is nil"},
		{required(applying(t, `{"metadata":{"name":"a","namespace":"${object.no}"}}`)), "actions[0].apply.object.metadata.namespace: it is nil"},
		{applying(t, `{"metadata":{"name":"${object.n}"}}`), "actions[0].apply.object.metadata.name: it must be a string"},
		{applying(t, `{"metadata":{"name":"${object.m}"}}`), "actions[0].apply.object.metadata.name: it must be a string"},
		{applying(t, `{"metadata":{"name":"a","namespace":"${object.l}"}}`), "actions[0].apply.object.metadata.namespace: it must be a string"},
		{applying(t, `{"metadata":{"name":""}}`), "actions[0].apply.object.metadata.name: it is nil"},
		{applying(t, `{"metadata":{"Name":"a"}}`), "actions[0].apply.object.metadata.name: it is nil"},
		{applying(t, `{"metadata":"${object.s}"}`), "actions[0].apply.object.metadata: it must be a map with a name"},
		{applying(t, `{"metadata":"${object.no}"}`), "actions[0].apply.object.metadata: it must be a map with a name"},
		{applying(t, `{}`), "actions[0].apply.object.metadata: it must be a map with a name"},
		{applying(t, `"${object.s}"`), "actions[0].apply.object: it must give a map"},
		{applying(t, `"${object.l}"`), "actions[0].apply.object: it must give a map"},
		{applying(t, `"${object.no}"`), "actions[0].apply.object: it is nil"},
		{applying(t, `"${ {metadata: {generateName: \"a\"}} }"`), "actions[0].apply.object.metadata.generateName: it would make another object at each repeat"},
		{applying(t, `{"metadata":{"name":"a"},"a":{"b":[0,{"c":"${object.s + 1}"}]}}`), "actions[0].apply.object.a.b[1].c: "},
		{applying(t, `{"metadata":{"name":"a"},"a":"x${object.m}"}`), "actions[0].apply.object.a: ${object.m} is a map within a longer string: use toJSON"},
		{applying(t, `{"metadata":{"name":"a"},"":{"":"${object.s.x}"}}`), "actions[0].apply.object..: "},
		{forEach(t, `object.s`, `{"metadata":{"name":"a"}}`), "actions[0].forEach: forEach gives a string, not a list"},
		{forEach(t, `object.l`, `{"metadata":{"name":"${item.x}"}}`), "actions[0].apply.object.metadata.name: a string has no field \"x\""},
		{forEach(t, `1..1025`, `{"metadata":{"name":"a${item}"}}`), "actions[0]: more than 1024 actions"},
		{ActionTemplate{Verb: "delete", Resource: podResource, Name: text(`"${object.no}"`)}, "actions[0].delete.name: it is nil"},
		{ActionTemplate{Verb: "delete", Resource: podResource, Name: text(`""`)}, "actions[0].delete.name: it is empty"},
		{ActionTemplate{Verb: "delete", Resource: podResource, Name: text(`"${object.l}"`)}, "actions[0].delete.name: it must be a string"},
		{ActionTemplate{Verb: "delete", Resource: podResource, Name: text(`null`)}, "actions[0].delete.name: it must be a string"},
		{ActionTemplate{Verb: "delete", Resource: podResource, UID: text(`"${object.no}"`)}, "actions[0].delete.uid: it is nil"},
		{ActionTemplate{Verb: "event", Resource: podResource, Reason: text(`"${object.no}"`)}, "actions[0].event.reason: it is nil"},
		{ActionTemplate{Verb: "patch", Resource: podResource, PatchType: handler.MergePatch, Patch: text(`"${object.l}"`)}, "actions[0].patch.merge: it must give a map"},
		{ActionTemplate{Verb: "patch", Resource: podResource, PatchType: handler.JSONPatch, Patch: text(`"${object.m}"`)}, "actions[0].patch.json: it must give a list of operations"},
		{ActionTemplate{Verb: "patch", Resource: podResource, PatchType: handler.JSONPatch, Patch: operation}, "actions[0].patch.json[0].value: it is nil"},
	} {
		got, err := evaluate(t, change, test.of)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || got != nil {
			t.Errorf("%v, %d actions; want %s", err, len(got), test.want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error quotes a value of the object: %v", err)
		}
	}
}

// If one action fails to evaluate, the rule performs none of them.
func TestAllOrNothing(t *testing.T) {
	good, bad := applying(t, `{"metadata":{"name":"a"}}`), applying(t, `{"metadata":{"name":"${object.metadata.name.x}"}}`)
	got, err := evaluate(t, added(t, `{"metadata":{"name":"a"}}`), good, bad, good)
	if got != nil || err == nil || !strings.HasPrefix(err.Error(), "actions[1].apply.object.metadata.name: ") {
		t.Errorf("got %d actions, error %v; want none and the error of actions[1]", len(got), err)
	}
}

func TestBoundsOfActions(t *testing.T) {
	change := added(t, `{"metadata":{"name":"a"},"big":"`+strings.Repeat("x", 1<<20)+`"}`)
	t.Run("as many as there may be", func(t *testing.T) {
		got, err := evaluate(t, change, forEach(t, "1..1023", `{"metadata":{"name":"a${item}"}}`), applying(t, `{"metadata":{"name":"z"}}`))
		if err != nil || len(got) != maxActions || got[1022].Name != "a1023" || got[1023].Name != "z" {
			t.Errorf("got %d actions, error %v", len(got), err)
		}
	})
	t.Run("one more", func(t *testing.T) {
		one := applying(t, `{"metadata":{"name":"z"}}`)
		if got, err := evaluate(t, change, forEach(t, "1..1023", `{"metadata":{"name":"a${item}"}}`), one, one); err == nil || got != nil {
			t.Errorf("got %d actions, error %v", len(got), err)
		}
	})
	t.Run("what if leaves out does not count", func(t *testing.T) {
		of := forEach(t, "1..20000", `{"metadata":{"name":"a${item}"}}`)
		with := options
		with.Item, with.Scope = of.ForEach, expr.When
		var err error
		if of.If, err = expr.Compile("item % 100 == 0", with); err != nil {
			t.Fatal(err)
		}
		if got, err := evaluate(t, change, of); err != nil || len(got) != 200 || got[199].Name != "a20000" {
			t.Errorf("got %d actions, error %v", len(got), err)
		}
	})
	t.Run("seven MiB in all", func(t *testing.T) {
		if got, err := evaluate(t, change, forEach(t, "1..7", `{"metadata":{"name":"a${item}"},"d":"${object.big}"}`)); err != nil || len(got) != 7 {
			t.Errorf("got %d actions, error %v", len(got), err)
		}
	})
	t.Run("more than eight", func(t *testing.T) {
		_, err := evaluate(t, change, forEach(t, "1..9", `{"metadata":{"name":"a${item}"},"d":"${object.big}"}`))
		if err == nil || err.Error() != "actions[0].apply.object: the actions exceed 8 MiB" && err.Error() != "actions[0].apply.object.d: the actions exceed 8 MiB" {
			t.Error(err)
		}
	})
	t.Run("one that is that large by itself", func(t *testing.T) {
		_, err := evaluate(t, change, applying(t, `{"metadata":{"name":"a"},"d":"${map(1..9, object.big)}"}`))
		if err == nil || !strings.Contains(err.Error(), "memory budget of 8 MiB exceeded") {
			t.Error(err)
		}
	})
	t.Run("work without end", func(t *testing.T) {
		start := time.Now()
		_, err := evaluate(t, change, forEach(t, "1..100000", `{"metadata":{"name":"a${len(filter(1..2000, # > item))}"}}`))
		if err == nil {
			t.Error("no error, although the work exceeds the budget")
		}
		of := forEach(t, "1..90000", `{"metadata":{"name":"a"}}`)
		with := options
		with.Item, with.Scope = of.ForEach, expr.When
		if of.If, err = expr.Compile("any(1..2000, # == -item)", with); err != nil {
			t.Fatal(err)
		}
		_, err = evaluate(t, change, of)
		if err == nil || err.Error() != "actions[0].if: the expressions together exceed what they may take" {
			t.Error(err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("both evaluations took %v, want at most 20s", took)
		}
	})
}

// When an object is deleted, a rule performs only the actions that ask for it.
func TestActionsOfDeletedObjects(t *testing.T) {
	condition := func(of ActionTemplate, text string) ActionTemplate {
		of.If = compile(t, text, expr.When)
		return of
	}
	deleted := added(t, `{"metadata":{"name":"a"}}`)
	deleted.Type = delta.Deleted
	apply := applying(t, `{"metadata":{"name":"apply"}}`)
	asks := condition(applying(t, `{"metadata":{"name":"asks"}}`), `event == "deleted"`)
	asksNot := condition(applying(t, `{"metadata":{"name":"asks-not"}}`), `event != "deleted"`)
	other := condition(applying(t, `{"metadata":{"name":"other"}}`), `object.metadata.name == "a"`)
	tell := ActionTemplate{Verb: "event", Name: Constant("tell"), Reason: Constant("Gone")}
	telling := condition(tell, `event == "deleted"`)
	telling.Name = Constant("telling")
	status := condition(applying(t, `{"metadata":{"name":"status"}}`), `event == "deleted"`)
	status.Subresource = "status"
	for _, test := range []struct {
		why  string
		of   Actions
		want string
	}{
		{"nothing is said of events", Actions{}, "asks telling status"},
		{"events has deleted", Actions{Deleted: true}, "apply asks other tell telling status"},
		{"what was applied is pruned", Actions{Prune: true}, "telling status"},
		{"what was applied is pruned, events has deleted", Actions{Prune: true, Deleted: true}, "tell telling status"},
	} {
		t.Run(test.why, func(t *testing.T) {
			test.of.Each = []ActionTemplate{apply, asks, asksNot, other, tell, telling, status}
			got, err := joined(test.of.Evaluate(deleted, nil, everything{}))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, a := range got {
				names = append(names, a.Name)
			}
			if diff := cmp.Diff(test.want, strings.Join(names, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPathsReadByActions(t *testing.T) {
	of := forEach(t, `lookup("nodes.byName", object.a)`, `{"metadata":{"name":"${item.n}"},"d":["${object.b} ${old.c}"]}`)
	of.If = compile(t, "object.d == 1", expr.When)
	a := &Actions{Each: []ActionTemplate{of, {
		Verb: "patch", Name: templated(t, `"${object.e}"`, options), Namespace: templated(t, `"${object.f}"`, options),
		UID: templated(t, `"${object.g}"`, options), ResourceVersion: templated(t, `"${object.h}"`, options), Patch: templated(t, `{"a":{"b":"${object.i}"}}`, options),
		Reason: templated(t, `"${object.j}"`, options), Message: templated(t, `"${object.k}"`, options),
	}}}
	if diff := cmp.Diff("a b c d e f g h i j k", a.Paths().String()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(". n", a.Lookups()["nodes"].String()); diff != "" {
		t.Error(diff)
	}
	var none *Actions
	if !none.Paths().IsEmpty() || len(none.Lookups()) > 0 {
		t.Error("a rule without actions must read no paths for actions")
	}
}
