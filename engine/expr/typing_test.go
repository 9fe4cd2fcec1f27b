package expr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/schema"
)

var (
	text, number, boolean = schema.Of(schema.String), schema.Of(schema.Number), schema.Of(schema.Bool)
	texts                 = schema.MapOf(text)
	quantities            = schema.MapOf(schema.Of(schema.String | schema.Number))
)

func enum(values ...string) (t schema.Type) {
	t = schema.Constant(values[0])
	for _, v := range values[1:] {
		t = schema.Union(t, schema.Constant(v))
	}
	return t
}

var pod = schema.Struct(map[string]schema.Type{
	"kind": text,
	"metadata": schema.Struct(map[string]schema.Type{
		"name": text, "labels": texts, "deletionTimestamp": text, "finalizers": schema.ListOf(text),
		"generation": number, "creationTimestamp": text, "managedFields": schema.ListOf(texts),
	}),
	"spec": schema.Struct(map[string]schema.Type{
		"nodeName": text, "priority": number, "hostNetwork": boolean, "open": {},
		"containers": schema.ListOf(schema.Struct(map[string]schema.Type{
			"name": text, "image": text, "requests": quantities,
			"port": schema.Of(schema.String | schema.Number),
		})),
	}),
	"status": schema.Struct(map[string]schema.Type{
		"phase": enum("Failed", "Pending", "Running"),
		"conditions": schema.ListOf(schema.Struct(map[string]schema.Type{
			"type": text, "status": text,
		})),
	}),
})

var typing = expr.Typing{
	Object: expr.ObjectOf("v1/pods", pod),
	Sources: map[string]expr.Typed{
		"pods": expr.ObjectOf("v1/pods", pod), "unknown": {},
	},
}

func TestTypeMistakes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{ // want begins with what stands at the place
		{`object.spec.nodename`, `nodename|there is no field spec.nodename in v1/pods; did you mean nodeName?`},
		{`object.spec["nodename"] == nil`, `"nodename"]|there is no field spec.nodename`},
		{`object.spec?.nodename`, `nodename|there is no field`},
		{`old.spec.nodename`, `nodename|there is no field`},
		{`object.spec.phase`, `phase|there is no field spec.phase in v1/pods; did you mean status.phase?`},
		{`object.restarts`, `restarts|there is no field restarts in v1/pods; there are kind, metadata, spec, status`},
		{`let s = object.spec; s.node`, `node|there is no field spec.node`},
		{`any(object.spec.containers, .imag == "x")`, `imag == "x")|there is no field spec.containers[].imag in v1/pods; did you mean image?`},
		{`any(object.spec.containers, {let c = #; c.imag == "x"})`, `imag`},
		{`object.spec.containers[0].imag`, `imag|`},
		{`object.spec.containers[1:][0].imag`, `imag|`},
		{`first(object.spec.containers).imag`, `imag|`},
		{`(object.spec.containers | filter(.name != "a"))[0].imag`, `imag|`},
		{`map(object.spec.containers, ({n: .imag}))`, `imag|`},
		{`map(object.spec.containers, ({n: .image}))[0].m`, `m|there is no field m; did you mean n?`},
		{`find(sortBy(object.spec.containers, .image), true).imag`, `imag|`},
		{`concat(object.spec.containers, nil)[0].imag`, `imag|`},
		{`first(lookup("pods.byNode", object.spec.nodeName)).spec.nodename`, `nodename|`},
		{`byIndex("byNode", "x")[0].spec.nodename`, `nodename|`},
		{`(true ? object.spec : object.spec).nodename`, `nodename|`},
		{`(object.spec ?? nil).nodename`, `nodename|`},
		{`object.spec.nodeName in [nil, "a"]`, `nil, "a"]|in never finds nil in a list: write object.spec.nodeName == nil or object.spec.nodeName in […]`},
		{`object.spec.nodeName not in [old.spec.nodeName, nil]`, `nil]|in never finds nil in a list, so not in holds for it: write object.spec.nodeName != nil and object.spec.nodeName not in […]`},
		{`not (object.spec.open in [nil])`, `nil])|in never finds nil in a list, so not in holds for it: write object.spec.open != nil and`},
		{`!(get(object, "a") in [(nil)])`, `nil)])|in never finds nil in a list, so not in holds for it: write get(object, "a") != nil and`},
		{`any(object.spec.containers, .image in [nil])`, `nil])|in never finds nil`},
		{`"node" in object.spec`, `"node" in object.spec|there is no field spec.node`},
		{`object.spec.containers.image`, `image|spec.containers of v1/pods is a list, which has no field image; ask each element`},
		{`object.status.phase.x`, `x|status.phase of v1/pods is a string, which has no field x`},
		{`object.metadata.labels.app.kubernetes`, `kubernetes|metadata.labels.app of v1/pods is a string, which has no field kubernetes; a name with . in it needs brackets, such as labels["app.kubernetes.io/name"]`},

		{`object.status.phase == "Runing"`, `"Runing"|status.phase of v1/pods is never "Runing": it is Failed, Pending or Running; did you mean Running?`},
		{`"Runing" != object.status.phase`, `"Runing" != |status.phase of v1/pods is never "Runing"`},
		{`object.status.phase in ["Failed", "failed"]`, `"failed"|status.phase of v1/pods is never "failed"`},
		{`object.spec.priority == "1"`, `"1"|spec.priority of v1/pods is a number, which never equals a string: leave the quotes out`},
		{`object.spec.hostNetwork == "true"`, `"true"|spec.hostNetwork of v1/pods is true or false, which never equals a string: leave the quotes out`},
		{`any(object.status.conditions, .status == true)`, `true)|status.conditions[].status of v1/pods is a string, which never equals true or false: write "True"`},
		{`object.spec.nodeName == 1`, `1|spec.nodeName of v1/pods is a string, which never equals a number: write "1"`},
		{`object.spec.priority > "3"`, `"3"|spec.priority of v1/pods is a number, which never compares with a string`},
		{`object.spec.priority == object.metadata.name`, `object.metadata.name|spec.priority of v1/pods is a number, which never equals metadata.name of v1/pods, a string`},
		{`object.spec.containers == 0`, `0|spec.containers of v1/pods is a list, which never equals a number: write len(object.spec.containers)`},
		{`object.metadata.finalizers == "x"`, `"x"|metadata.finalizers of v1/pods is a list, which never equals a string: write "x" in object.metadata.finalizers`},
		{`object.spec.priority in ["1"]`, `"1"]|spec.priority of v1/pods is a number, which never equals a string`},
		{`1 in object.metadata.finalizers`, `1 in|an element of metadata.finalizers of v1/pods is a string, which never equals a number`},
		{`"x" in object.metadata.name`, `object.metadata.name|metadata.name of v1/pods is a string, which has nothing in it: write object.metadata.name contains "x"`},
		{`any(object.spec.containers, "/api" not in .image)`, `.image)|spec.containers[].image of v1/pods is a string, which has nothing in it: write .image contains "/api"`},
		{`object.kind in object.metadata.name`, `object.metadata.name|metadata.name of v1/pods is a string, which has nothing in it; in needs a list or a map`},
		{`object.metadata.labels.my-1 > 1`, `object.metadata|metadata.labels.my of v1/pods is a string, and - takes numbers; a field with - in its name needs brackets: object.metadata.labels["my-1"]`},
		{`object.metadata.managedField == nil`, `managedField|there is no field metadata.managedField in v1/pods`},
		{`object.managedFields == nil`, `managedFields|there is no field managedFields in v1/pods; there are kind, metadata, spec, status`},
		{`object.metadata.managedFields == nil`, `managedFields|informd leaves metadata.managedFields out of objects, so it is always nil`},
		{`object.metadata.finalizers contains "x"`, `object.metadata.finalizers contains|metadata.finalizers of v1/pods is a list, and contains needs a string: write "x" in object.metadata.finalizers`},
		{`"n: " + object.spec.priority`, `object.spec.priority|spec.priority of v1/pods is a number, which + does not join to a string: write string(…)`},
		{`object.metadata.deletionTimestamp and true`, `object.metadata.deletionTimestamp and|metadata.deletionTimestamp of v1/pods is a string, not true or false: write object.metadata.deletionTimestamp != nil`},
		{`not object.metadata.name`, `object.metadata.name|metadata.name of v1/pods is a string, not true or false`},
		{`object.metadata.name ? 1 : 2`, `object.metadata.name ?|`},
		{`filter(object.spec.containers, .name)`, `.name)|spec.containers[].name of v1/pods is a string, not true or false: write .name != nil`},
		{`any(object.metadata.labels, true)`, `object.metadata.labels,|metadata.labels of v1/pods is a map, and any needs a list`},
		{`object.spec.aaa + object.spec.bbb`, `aaa`},

		{`now() - object.metadata.creationTimestamp`, `object.metadata|metadata.creationTimestamp of v1/pods is a string, and - takes numbers, times, durations or quantities: write time(object.metadata.creationTimestamp)`},
		{`object.metadata.creationTimestamp + duration("1h")`, `object.metadata|metadata.creationTimestamp of v1/pods is a string, and + takes`},
		{`duration("1h") + object.metadata.creationTimestamp`, `object.metadata|metadata.creationTimestamp of v1/pods is a string, and + takes`},
		{`object.spec.nodeName * 2`, `object.spec|spec.nodeName of v1/pods is a string, and * takes numbers, times, durations or quantities: write int(object.spec.nodeName)`},
		{`(object.spec.priority ?? 0) > object.metadata`, `object.metadata|metadata of v1/pods is a map, which never compares with a number`},
		{`len(object.metadata.name) == lower("X")`, `len|this is a number, which never equals a string`},
		{`any(object.status.conditions, .status)`, `.status|status.conditions[].status of v1/pods is a string, not true or false: write .status == "True"`},
		{`any(object.status.conditions, .stat == "True")`, `stat|there is no field status.conditions[].stat in v1/pods; did you mean status?`},
	} {
		t.Run(test.text, func(t *testing.T) {
			t.Parallel()
			_, mistakes := expr.Check(test.text, typing)
			if len(mistakes) == 0 {
				t.Fatal("no mistake")
			}
			at, message, _ := strings.Cut(test.want, "|")
			first := mistakes[0]
			if got := test.text[first.Offset:]; !strings.HasPrefix(got, at) {
				t.Errorf("the mistake is at %q, want %q", got, at)
			}
			if !strings.HasPrefix(first.Message, message) {
				t.Errorf("%q\nwant %q", first.Message, message)
			}
		})
	}
}

// What may be right is not reported.
func TestNoTypeMistakes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`object.spec.nodeName == nil`,
		`get(object.spec, "nodename") == "x"`,
		`get(object.status, "phase") == "Runing"`,
		`object.spec.open.any.field[0].x == 1`,
		`object.status.phase == ""`,
		`object.metadata.labels.anything == "x"`,
		`object.metadata.labels["a/b"] in ["x"]`,
		`object.metadata.labels[object.metadata.name] == "x"`,
		`(object.spec.priority ?? "none") == "none"`,
		`(object.spec ?? {nodename: 1}).nodename`,
		`(object.spec.open ?? {}).x`,
		`object.spec.containers[0].port == "http"`,
		`object.spec.containers[0].port == 80`,
		`quantity(object.spec.containers[0].requests.cpu) > "1"`,
		`time(object.metadata.creationTimestamp) + duration("1h") > "2026-01-01T00:00:00Z"`,
		`now() - time(object.metadata.creationTimestamp) > duration("1h")`,
		`object.metadata.creationTimestamp > "2026"`,
		`object.metadata.creationTimestamp < now()`,
		`len(object.spec.containers) > 1`,
		`object.spec.containers == []`,
		`object.metadata.labels == old.metadata.labels`,
		`event == "added"`,
		`first(lookup("unknown.byName", "x")).any.thing == 1`,
		`first(lookup("nobody.byName", "x")).any.thing == 1`,
		`fromJSON(object.metadata.labels.x).a.b == 1`,
		`object.spec.hostNetwork and true`,
		`not object.spec.hostNetwork`,
		`groupBy(object.spec.containers, .image)["x"][0].name`,
		`reduce(object.spec.containers, #acc + 1, 0)`,
		`[object.spec, object.status][0].phase`,
		`{a: nil}.a.b`,
		`"a" + string(object.spec.priority)`,
		`toPairs(object.metadata.labels)[0][1] == "x"`,
		`values(object.metadata.labels)[0] == "x"`,
		`keys(object.metadata.labels)[0] == "x"`,
		`1 < object.spec.priority <= 3`,
		`"tier" in object.metadata.labels`,
		`object.metadata.labels.my-app == "x"`, // Compile reports the unknown name
		`object.spec.`,                         // no expression at all
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			if _, mistakes := expr.Check(text, typing); len(mistakes) > 0 {
				t.Error(mistakes[0])
			}
		})
	}
}

func TestTypeMistakesInTemplates(t *testing.T) {
	t.Parallel()
	text := "on ${object.spec.nodename} in ${object.status.faze}"
	gives, mistakes := expr.CheckTemplate(text, typing)
	if gives.Kind() != "a string" || len(mistakes) != 2 {
		t.Fatal(gives.Kind(), mistakes)
	}
	for i, want := range []string{"nodename", "faze"} {
		if got := text[mistakes[i].Offset:]; !strings.HasPrefix(got, want) {
			t.Errorf("the mistake is at %q, want %q", got, want)
		}
	}
	for text, want := range map[string]string{
		"${object.spec.priority}": "a number", "a ${object.spec.priority}": "a string", "a": "a string",
		"${object.spec.open}": "", "": "a string",
	} {
		if gives, _ := expr.CheckTemplate(text, typing); gives.Kind() != want {
			t.Errorf("%q gives %q, want %q", text, gives.Kind(), want)
		}
	}
}

// A chain of comparisons shares nodes, so that a naive walk would take exponential time.
func TestTypesOfChain(t *testing.T) {
	t.Parallel()
	text := "1"
	for i := range 30 {
		text = fmt.Sprintf("(%s) < %d < %d", text, i, i)
	}
	expr.Check(text, typing)
}

// A text full of mistakes takes no longer than one with a few.
func TestManyTypeMistakes(t *testing.T) {
	t.Parallel()
	_, mistakes := expr.Check(strings.Repeat("object.x or ", 1000)+"true", typing)
	if n := len(mistakes); n < 10 || n > 30 {
		t.Errorf("%d mistakes", n)
	}
}

// No text makes Check panic, and each mistake is within the text.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{
		`object.spec.nodename == 1 and not object.metadata.name`, `any(object.spec.containers, .a[0:1].b in [#, 1])`,
		`let x = object; x?.spec["a"] ?? {b: x.status}.b`, `lookup("pods.x", 1)[0] | map(#.y) | concat(nil, [])`,
		`true ? object.spec.containers[-1] : item`, `{(1): 2}`, `1..2`, `reduce([1], #acc, object)`, "$env.x", "object()",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, mistakes := expr.Check(text, typing)
		for _, m := range mistakes {
			if m.Offset < 0 || m.Offset > len(text) || m.Message == "" {
				t.Errorf("a mistake at %d: %q", m.Offset, m.Message)
			}
		}
	})
}
