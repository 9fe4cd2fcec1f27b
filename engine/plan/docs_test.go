package plan

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
)

// section is a part of docs/configuration.md.
func section(t *testing.T, heading string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(data), "\n"+heading+"\n")
	if !found {
		t.Fatalf("docs/configuration.md has no %s", heading)
	}
	text, _, _ = strings.Cut(text, "\n##")
	return text
}

func indented(text string, by int) string {
	return regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(text, strings.Repeat(" ", by)+"$1")
}

// Every recipe for actions in the documentation compiles.
func TestDocumentedRecipes(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml-snippet\n(.*?)```").FindAllStringSubmatch(section(t, "### How to"), -1)
	if len(blocks) < 6 {
		t.Fatalf("%d recipes", len(blocks))
	}
	others := source("nodes", "resource: v1/nodes, indexes: {byName: object.metadata.name}") +
		head + "kind: Source\nmetadata: {name: lists}\nspec:\n  resource: v1/configmaps\n  indexes:\n    byImage: flatten(map(values(object.data), split(trim(#), \"\\n\")))\n---\n" +
		source("things", "resource: v1/pods")
	for _, block := range blocks {
		text := block[1]
		if !strings.Contains(text, "actions:") { // part of an object
			text = "actions:\n- apply:\n    resource: v1/configmaps\n    object:\n" + indented(strings.Replace(text, "metadata:\n", "metadata:\n  name: a\n", 1), 6)
		}
		if _, mistakes := compile(t, others+head+"kind: Rule\nmetadata: {name: a}\nspec:\n  source: things\n"+indented(text, 2)); len(mistakes) > 0 {
			t.Error(mistakes)
		}
	}
}

// Every line of the table of templates in the documentation is so.
func TestDocumentedTemplates(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `(.*?)` \\| (.*) \\|$").FindAllStringSubmatch(section(t, "### Templates"), -1)
	if len(rows) < 10 {
		t.Fatalf("%d rows", len(rows))
	}
	was := ""
	for _, row := range rows {
		want := was
		if gives := regexp.MustCompile("^`(\"[^`]*)`").FindStringSubmatch(row[2]); gives != nil {
			want = strings.Replace(gives[1], ": ", ":", 1)
		} else if !strings.HasPrefix(row[2], "the same") {
			want, _, _ = strings.Cut(row[2], ":")
		}
		was = want
		if got := outcome(t, row[1]); got != want {
			t.Errorf("%s gives %s: %s", row[1], got, cmp.Diff(want, got))
		}
	}
}

// outcome is what a template with one member gives, in the words of the documentation.
func outcome(t *testing.T, member string) string {
	t.Helper()
	p, mistakes := compile(t, source("things", "resource: v1/pods")+
		head+"kind: Rule\nmetadata: {name: a}\nspec:\n  source: things\n  actions:\n  - patch:\n      merge:\n        "+member+"\n")
	if len(mistakes) > 0 {
		return "a mistake"
	}
	r := p.Rules[0]
	actions, err := r.Actions.Evaluate(delta.Delta{Type: delta.Added, Object: objectOf(t, `{"kind":"Pod","metadata":{"name":"a"},"spec":{"replicas":3}}`)}, looking{rule: r})
	if err != nil {
		return "an error"
	}
	text := string(actions[0].Patch)
	if text == "{}" {
		return "nothing"
	}
	return text[1 : len(text)-1]
}
