package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/plugins/handler"
)

// FuzzActions compiles any text as a template and as a list. Every action must be JSON within its
// bounds. Every failure must name its place, and must not quote the object.
func FuzzActions(f *testing.F) {
	for _, text := range []string{
		"a", "${object.a}", "x ${object.b} y", "${item}", "${item.x ?? nil}", "$${a", "${object}", "${ {a: nil} }", "${[nil, object.s]}", "${object.s + 1}",
		"${map(1..2000, object.s)}", "a ${object.no}", "${now()}", "${object.n}", "\x00${1}", "${\"\\u0000<>&\\u2028\"}", "${1e300}", "${object.metadata.name}",
	} {
		f.Add(text, "object.l")
		f.Add(text, "1..1100")
		f.Add(text, `lookup("spaces.all", "x")`)
	}
	const secret = "hunter2hunter2"
	o, err := object.FromJSON([]byte(`{"metadata":{"name":"tls","namespace":"shop"},"a":{"b":[1,null,{}]},"b":1.5,"l":["x",2,null,{"x":3}],"n":9007199254740993,"s":"` + secret + `"}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, list string) {
		quoted, err := json.Marshal(text)
		if err != nil || !utf8.ValidString(text) || strings.Contains(text, secret) || strings.Contains(list, secret) {
			return
		}
		each, err := json.Marshal(list)
		if err != nil || !utf8.ValidString(list) {
			return
		}
		c, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: fmt.Appendf(nil, `{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: secrets}, spec: {resource: v1/secrets, indexes: {own: object.a}}}
---
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: spaces}, spec: {resource: v1/namespaces, indexes: {all: '"yes"'}}}
---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: a}, spec: {source: secrets, actions: [
  {forEach: %s, apply: {resource: v1/configmaps, object: {metadata: {name: %s, namespace: "x${item}"}, data: [%[2]s, {a: %[2]s}]}}},
  {forEach: %[1]s, patch: {name: %[2]s, merge: {a: %[2]s, %[2]s: 1}}},
  {event: {reason: %[2]s, message: %[2]s}}]}}
`, each, quoted)}})
		p, more := Compile(c)
		for _, m := range append(mistakes, more...) {
			if m.Line == 0 || m.Message == "" || !utf8.ValidString(m.Error()) {
				t.Fatalf("%q, %q: %v", text, list, m)
			}
		}
		if len(mistakes)+len(more) > 0 {
			return
		}
		r := p.Rules[0]
		steps, err := r.Actions.Evaluate(delta.Delta{Type: delta.Added, Object: o}, nil, looking{r, map[string][]*object.Object{"spaces": {o, o}}})
		var actions []handler.Action
		for _, s := range steps {
			actions = append(actions, s.Actions...)
		}
		if err != nil {
			if strings.Contains(err.Error(), secret) || !strings.HasPrefix(err.Error(), "actions[") || actions != nil {
				t.Fatalf("%q, %q: %v, %d actions", text, list, err, len(actions))
			}
			return
		}
		size := 0
		for _, a := range actions {
			size += len(a.Object) + len(a.Patch)
			if a.Name == "" || a.Object != nil && !json.Valid(a.Object) || a.Patch != nil && !json.Valid(a.Patch) || !utf8.ValidString(a.Name+a.Message+a.Reason) {
				t.Fatalf("%q, %q: %+v", text, list, a)
			}
		}
		if size > 8<<20 || len(actions) > 1024 {
			t.Fatalf("%q, %q: %d actions of %d bytes", text, list, len(actions), size)
		}
	})
}
