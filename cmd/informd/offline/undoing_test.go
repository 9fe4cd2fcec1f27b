package offline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/informd/informd/cmd/informd/manifests"
	"github.com/informd/informd/config"
)

// check says of a rule that it deletes what it applies only if that is certain.
func TestRulesThatUndoWhatTheyApply(t *testing.T) {
	const apply = "apply: {resource: v1/configmaps, object: {metadata: {name: a, namespace: b}}}"
	for why, c := range map[string]struct {
		where, actions, rest string
		want                 string // the condition; "": nothing is said
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
		_, p, err := manifests.Compile([]config.File{{Path: "a.yaml", Data: []byte(text)}}, nil)
		if err != nil {
			t.Errorf("%s: %v", why, err)
			continue
		}
		want := ""
		if c.want != "" {
			want = "rule copies deletes what it applies: after its actions[1].patch the object is no member, because " +
				c.want + " is false,\n  and prune deletes what its actions[0].apply has applied\n"
		}
		if got := describeUndoing(p); got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", why, got, want)
		}
	}
}
