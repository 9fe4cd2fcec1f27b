package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/engine/delta"
)

// A constant that the API server takes only as a string is a mistake, where its author wrote it.
func TestConstantsThatMustBeStrings(t *testing.T) {
	for actions, want := range map[string]string{
		`  - patch: {merge: {metadata: {annotations: {a: 1}}}}`:                                                                                                `7:49: an annotation is a string, not a number: write "1"`,
		`  - patch: {merge: {metadata: {labels: {a: true}}}}`:                                                                                                  `7:44: a label is a string, not true or false: write "true"`,
		`  - patch: {merge: {metadata: {labels: {a: {b: c}}}}}`:                                                                                                `7:41: a label is a string, not a mapping`,
		`  - patch: {merge: {metadata: {labels: {a: [b]}}}}`:                                                                                                   `7:41: a label is a string, not a list`,
		`  - patch: {merge: {stringData: {a: 0x10}}}`:                                                                                                          `7:37: a value in the stringData of a Secret is a string, not a number: write "0x10"`,
		`  - apply: {resource: v1/configmaps, object: {metadata: {name: a}, data: {port: 80}}}`:                                                                `7:81: a value in the data of a ConfigMap is a string, not a number: write "80"`,
		`  - create: {resource: apps/v1/deployments, object: {metadata: {name: a}, spec: {template: {metadata: {labels: {a: 1}}}}}}`:                           `7:116: a label is a string`,
		`  - create: {resource: batch/v1/cronjobs, object: {metadata: {name: a}, spec: {jobTemplate: {spec: {template: {metadata: {annotations: {a: 1}}}}}}}}`: `7:140: an annotation is a string`,
		`  - patch: {json: [{op: add, path: /metadata/labels/a~1b, value: 1}]}`:                                                                                `7:66: a label is a string`,
		`  - patch: {json: [{op: add, path: /metadata/labels, value: {a: 1}}]}`:                                                                                `7:65: a label is a string`,
		`  - patch: {json: [{value: 1, op: add, path: /data/a}]}`:                                                                                              `7:28: a value in the data of a Secret is a string`,
		`  - patch: {resource: apps/v1/deployments, name: a, namespace: b, json: [{op: add, path: /data/a, value: 1}]}`:                                        "",
		`  - patch: {json: [{op: add, path: /metadata, value: {a: 1}}, {op: add, path: "", value: 1}, {op: remove, path: /a}]}`:                                "",
		`  - patch: {merge: {metadata: {labels: {a: null, b: "1", c: "${object.a}"}, generation: 1}, spec: {replicas: 1}}}`:                                    "",
		`  - create: {resource: example.com/v1/as, object: {metadata: {name: a}, data: {a: 1}, spec: {template: {metadata: {labels: {a: 1}}}}}}`:               "",
		`  - patch: {merge: {metadata: {labels: {"a b": c}}}}`:                                                                                                 `7:42: a label cannot be named "a b": write letters, digits`,
		`  - patch: {merge: {metadata: {annotations: {a/b/c: c}}}}`:                                                                                            `7:46: an annotation cannot be named "a/b/c"`,
		`  - patch: {merge: {metadata: {labels: {a: "b c"}}}}`:                                                                                                 `7:45: a label cannot be "b c": at most 63 letters`,
		"  - patch: {merge: {metadata: {labels: {a: \"${object.a}\\n\"}, annotations: {a: \"${object.a}\\n\"}}}}":                                              `7:45: a label cannot end with a line break, as a block below | does: write |-`,
		`  - patch: {merge: {metadata: {labels: {example.com/A: "", b: "${object.a} c"}, annotations: {Example.com/a: "b c"}}}}`:                               "",
	} {
		_, mistakes := compile(t, acting(actions+"\n")+source("secrets", secrets))
		switch {
		case want == "" && len(mistakes) > 0:
			t.Errorf("%s: %v", actions, mistakes)
		case want == "":
		case len(mistakes) != 1,
			!strings.Contains(mistakes[0].Position.String()+": "+mistakes[0].Message, want):
			t.Errorf("%s: %v\nwant %s", actions, mistakes, want)
		}
	}
}

// What an expression gives instead of a string fails with its place and what to write.
func TestValuesThatMustBeStrings(t *testing.T) {
	p := mustCompile(t, source("secrets", secrets)+acting(`  - patch: {merge: {metadata: {labels: {a: "${object.a}"}}}}
  - patch: {merge: {metadata: {labels: "${object.a}"}}}
  - patch: {json: [{op: add, path: /metadata/annotations/a, value: "${object.a}"}]}
`))
	all := p.Rules[0].Actions.Each
	for i, c := range []struct{ a, want string }{
		{`1`, "actions[0].patch.merge.metadata.labels.a: it must be a string, and is a number: write ${string(…)}"},
		{`true`, "actions[0].patch.merge.metadata.labels.a: it must be a string, and is true or false: write ${string(…)}"},
		{`[1]`, "actions[0].patch.merge.metadata.labels.a: it must be a string, and is a list: write ${toJSON(…)}"},
		{`"x"`, ""}, {`null`, ""},
		{`"x"`, "actions[1].patch.merge.metadata.labels: it must be a mapping of strings, and is a string"},
		{`{"b": 1}`, "actions[1].patch.merge.metadata.labels.b: it must be a string, and is a number: write ${string(…)}"},
		{`{"b": "1", "c": null}`, ""}, {`null`, ""},
		{`1`, "actions[2].patch.json[0].value: it must be a string, and is a number: write ${string(…)}"},
	} {
		actions := *p.Rules[0].Actions
		actions.Each = all[i/5+i/9 : i/5+i/9+1]
		change := objectOf(t, fmt.Sprintf(`{"metadata":{"name":"a"},"a":%s}`, c.a))
		_, err := actions.Evaluate(delta.Delta{Type: delta.Added, Object: change}, nil, looking{rule: p.Rules[0]})
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
			t.Errorf("%s: %s\nwant %s", c.a, got, c.want)
		}
	}
}
