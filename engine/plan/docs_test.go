package plan

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// section returns the part of a page below a heading.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut("\n"+string(data), "\n"+heading+"\n")
	if !found {
		t.Fatalf("docs/%s has no heading %q", page, heading)
	}
	text, _, _ = strings.Cut(text, "\n##")
	return text
}

func indented(text string, by int) string {
	return regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(text, strings.Repeat(" ", by)+"$1")
}

// Every recipe for actions in the documentation compiles.
func TestDocumentedRecipes(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml-snippet\n(.*?)```").FindAllStringSubmatch(section(t, "guides/change-the-cluster.md", "## Recipes"), -1)
	if len(blocks) < 6 {
		t.Fatalf("the page has only %d recipes", len(blocks))
	}
	index := regexp.MustCompile("(?s)```text\n(byConfigMap:.*?)```").FindStringSubmatch(section(t, "guides/change-the-cluster.md", "## Recipes"))
	if index == nil {
		t.Fatal("the page has no index byConfigMap")
	}
	others := head + "kind: Source\nmetadata: {name: deployments}\nspec:\n  resource: apps/v1/deployments\n  indexes:\n" + indented(index[1], 4) + "---\n" +
		source("members", "resource: v1/configmaps, labelSelector: team, indexes: {byTeam: object.metadata.labels.team}") +
		head + "kind: Handler\nmetadata: {name: deploy}\nspec: {builtin: log}\n---\n" +
		source("nodes", "resource: v1/nodes, indexes: {byName: object.metadata.name}") +
		head + "kind: Source\nmetadata: {name: lists}\nspec:\n  resource: v1/configmaps\n  indexes:\n    byImage: flatten(map(values(object.data), split(trim(#), \"\\n\")))\n---\n" +
		head + "kind: Handler\nmetadata: {name: chat}\nspec: {builtin: log}\n---\n"
	for _, block := range blocks {
		text := block[1]
		if !strings.Contains(text, "actions:") && !strings.Contains(text, "handler:") { // the block shows only part of an object
			text = "actions:\n- apply:\n    resource: v1/configmaps\n    object:\n" + indented(strings.Replace(text, "metadata:\n", "metadata:\n  name: a\n", 1), 6)
		}
		watched := "v1/pods"
		if strings.Contains(text, "example.com/v1/sites") {
			watched = "example.com/v1/sites"
		}
		if _, mistakes := compile(t, others+source("things", "resource: "+watched)+head+"kind: Rule\nmetadata: {name: a}\nspec:\n  source: things\n"+indented(text, 2)); len(mistakes) > 0 {
			t.Error(mistakes)
		}
	}
}

// Every manifest of a handler, and every part of one, in the pages about handlers has no mistake.
func TestDocumentedHandlers(t *testing.T) {
	for page, least := range map[string]int{
		"confine-a-handler": 7, "remote-handlers": 1, "ship-a-handler": 1,
	} {
		text, err := os.ReadFile("../../docs/guides/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, block := range regexp.MustCompile("(?s)```(yaml(?:-snippet)?)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			manifest := block[2]
			switch {
			case block[1] == "yaml-snippet":
				manifest = "spec:\n" + indented(strings.TrimPrefix(manifest, "spec:\n"), 2)
				if strings.HasPrefix(block[2], "spec:\n") {
					manifest = block[2]
				}
				if !regexp.MustCompile(`(?m)^  (command|builtin|address):`).MatchString(manifest) {
					manifest += "  command: [./oncall]\n"
				}
				manifest = head + "kind: Handler\nmetadata: {name: oncall}\n" + manifest
			case !strings.Contains(manifest, "kind: Handler"):
				continue // of Kubernetes
			}
			n++
			if _, mistakes := compile(t, source("pods", "resource: v1/pods")+manifest); len(mistakes) > 0 {
				t.Errorf("%s:\n%s\n%v", page, block[2], mistakes)
			}
		}
		if n < least {
			t.Errorf("%s has %d manifests of handlers, want at least %d", page, n, least)
		}
	}
}

// Each row of the documentation's table of templates gives the documented result.
func TestDocumentedTemplates(t *testing.T) {
	checkRows(t, section(t, "reference/templates.md", "## In an action"), 10, outcome)
}

// Each row of the documentation's table of payloads gives the documented result.
func TestDocumentedPayloads(t *testing.T) {
	checkRows(t, section(t, "reference/templates.md", "## In a payload"), 10, func(t *testing.T, member string) string {
		p, mistakes := compile(t, print+source("things", "resource: v1/pods")+head+
			"kind: Rule\nmetadata: {name: a}\nspec:\n  source: things\n  handler: print\n  payload:\n    "+member+"\n")
		if len(mistakes) > 0 {
			return "a mistake"
		}
		change := delta.Delta{Type: delta.Added, Object: objectOf(t, `{"kind":"Pod","metadata":{"name":"a"}}`)}
		match, ok, err := p.Rules[0].Decide(change, payloads{p.Rules[0]})
		if err != nil || !ok || match.Undecided {
			return "an error"
		}
		return string(match.Payload[1 : len(match.Payload)-1])
	})
}

// payloads decodes the paths of objects that a rule reads.
type payloads struct{ rule *Rule }

func (p payloads) Tree(o *object.Object) any        { return o.Decode(p.rule.Paths()) }
func (p payloads) Old(o *object.Object) any         { return p.Tree(o) }
func (p payloads) Now() time.Time                   { return time.Time{} }
func (payloads) ByIndex(_, _ string) expr.Found     { return expr.Found{} }
func (p payloads) Lookup(_, _, _ string) expr.Found { return p.ByIndex("", "") }

// checkRows compares the outcome of each row's first column with its second column.
func checkRows(t *testing.T, table string, least int, outcome func(t *testing.T, member string) string) {
	t.Helper()
	rows := regexp.MustCompile("(?m)^\\| `(.*?)` \\| (.*) \\|$").FindAllStringSubmatch(table, -1)
	if len(rows) < least { // the documentation lacks rows, or the table
		t.Fatalf("the table has %d rows, want at least %d", len(rows), least)
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

// outcome returns the result of a template with one member, in the words of the documentation.
func outcome(t *testing.T, member string) string {
	t.Helper()
	p, mistakes := compile(t, source("things", "resource: v1/pods")+
		head+"kind: Rule\nmetadata: {name: a}\nspec:\n  source: things\n  actions:\n  - apply:\n      resource: v1/nodes\n      object:\n"+
		"        "+member+"\n        metadata: {name: a}\n")
	if len(mistakes) > 0 {
		return "a mistake"
	}
	r := p.Rules[0]
	steps, err := r.Actions.Evaluate(delta.Delta{Type: delta.Added, Object: objectOf(t, `{"kind":"Pod","metadata":{"name":"a"},"spec":{"replicas":3}}`)}, nil, looking{rule: r})
	if err != nil {
		return "an error"
	}
	text, _ := strings.CutSuffix(string(steps[0].Actions[0].Object), `"metadata":{"name":"a"}}`)
	if text == "{" {
		return "nothing"
	}
	return text[1 : len(text)-1]
}
