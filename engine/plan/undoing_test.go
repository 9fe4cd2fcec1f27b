package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/config"
)

// A rule is reported to delete what it applies only if that is certain.
func TestRulesThatUndoWhatTheyApply(t *testing.T) {
	const apply = "apply: {resource: v1/configmaps, object: {metadata: {name: a, namespace: b}}}"
	for why, c := range map[string]struct {
		where, actions, rest string
		want                 string // the condition; "": no report
	}{
		"a label that where excludes": {`object.metadata.labels.done != "yes"`,
			apply + `|patch: {merge: {metadata: {labels: {done: "yes"}}}}`, "", `object.metadata.labels.done != "yes"`},
		"one of several conditions": {`object.metadata.name != "x" and object.metadata.annotations["a/b"] == nil`,
			apply + `|patch: {merge: {metadata: {annotations: {a/b: c}}}}`, "", `object.metadata.annotations["a/b"] == nil`},
		"a label that it removes": {`object.metadata.labels.todo == "yes"`,
			apply + `|patch: {merge: {metadata: {labels: {todo: null}}}}`, "", `object.metadata.labels.todo == "yes"`},
		"all labels that it removes": {`object.metadata.labels.todo == "yes"`,
			apply + `|patch: {merge: {metadata: {labels: null}}}`, "", `object.metadata.labels.todo == "yes"`},
		"the status": {`object.status.phase != "Done"`,
			apply + `|patch: {resource: v1/pods/status, merge: {status: {phase: Done}}}`, "", `object.status.phase != "Done"`},
		"under the same condition": {`object.metadata.labels.done != "yes"`,
			`{if: event == "added", ` + apply + `}|{if: event == "added", patch: {merge: {metadata: {labels: {done: "yes"}}}}}`, "", `object.metadata.labels.done != "yes"`},

		"another value": {`object.metadata.labels.done != "yes"`,
			apply + `|patch: {merge: {metadata: {labels: {done: "no"}}}}`, "", ""},
		"the patch comes later": {`object.metadata.labels.done != "yes"`,
			apply + `|{if: object.spec.nodeName == "a", patch: {merge: {metadata: {labels: {done: "yes"}}}}}`, "", ""},
		"one of two conditions that or joins": {`object.metadata.labels.done != "yes" or object.metadata.name == "x"`,
			apply + `|patch: {merge: {metadata: {labels: {done: "yes"}}}}`, "", ""},
		"a value known at run time": {`object.metadata.labels.done != "yes"`,
			apply + `|patch: {merge: {metadata: {labels: {done: "${object.metadata.name}"}}}}`, "", ""},
		"another object": {`object.metadata.labels.done != "yes"`,
			apply + `|patch: {name: other, merge: {metadata: {labels: {done: "yes"}}}}`, "", ""},
		"the status, which a plain patch does not set": {`object.status.phase != "Done"`,
			apply + `|patch: {merge: {status: {phase: Done}}}`, "", ""},
		"labels that it merges with": {`len(object.metadata.labels ?? {}) == 0`,
			apply + `|patch: {merge: {metadata: {labels: {}}}}`, "", ""},
		"a when decides about deletions, too": {`object.metadata.labels.done != "yes"`,
			apply + `|patch: {merge: {metadata: {labels: {done: "yes"}}}}`, "prune: true\n  when: event != \"deleted\"", ""},
		"without prune": {`object.metadata.labels.done != "yes"`,
			apply + `|patch: {merge: {metadata: {labels: {done: "yes"}}}}`, "prune: false", ""},
	} {
		var actions strings.Builder
		for _, a := range strings.Split(c.actions, "|") {
			if !strings.HasPrefix(a, "{") {
				a = "{" + a + "}"
			}
			fmt.Fprintf(&actions, "  - %s\n", a)
		}
		rest := c.rest
		if rest == "" {
			rest = "prune: true"
		}
		text := fmt.Sprintf("apiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: pods}\nspec: {resource: v1/pods}\n---\n"+
			"apiVersion: informd.dev/v1alpha1\nkind: Rule\nmetadata: {name: copies}\nspec:\n  source: pods\n  where: %s\n  %s\n  actions:\n%s",
			c.where, rest, actions.String())
		cfg, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: []byte(text)}})
		p, more := Compile(cfg)
		if mistakes = append(mistakes, more...); len(mistakes) > 0 {
			t.Errorf("%s: %v", why, mistakes)
			continue
		}
		want := Undoing{}
		if c.want != "" {
			want = Undoing{Patch: "actions[1]", Apply: "actions[0]", Condition: c.want}
		}
		if got, ok := p.Rules[0].Undoes(); got != want || ok != (c.want != "") {
			t.Errorf("%s: %+v, want %+v", why, got, want)
		}
	}
}
