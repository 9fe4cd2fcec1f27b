package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/config"
)

// A rule is reported to share a target among the objects of its source only if that is certain.
func TestRulesThatShareATarget(t *testing.T) {
	const constant = `apply: {resource: v1/configmaps, object: {metadata: {namespace: shop, name: all}, data: {x: "${object.data.x}"}}}`
	named := func(namespace, name string) string {
		return fmt.Sprintf(`apply: {resource: v1/configmaps, object: {metadata: {namespace: %q, name: %q}}}`, namespace, name)
	}
	each := func(forEach, apply string) string { return fmt.Sprintf("{forEach: %q, %s}", forEach, apply) }
	const everywhere = `lookup("namespaces.active", "yes")`
	for why, c := range map[string]struct {
		source, rest, action string
		want                 []string
	}{
		"a constant":                        {"", "", constant, []string{"actions[0]"}},
		"a cluster-scoped constant":         {"", "", `apply: {resource: v1/nodes, object: {metadata: {name: all}}}`, []string{"actions[0]"}},
		"an expression of constants":        {"", "", named("shop", `${"a" + "b"}`), []string{"actions[0]"}},
		"elements of another source":        {"", "", each(everywhere, named("${item.metadata.name}", "all")), []string{"actions[0]"}},
		"a list of constants":               {"", "", each(`["a", "b"]`, named("${item}", "all")), []string{"actions[0]"}},
		"what another source says":          {"", "", named(`${first(lookup("namespaces.active", "yes")).metadata.name}`, "all"), []string{"actions[0]"}},
		"a whole object of another source":  {"", "", each(everywhere, `apply: {resource: v1/configmaps, object: "${item}"}`), []string{"actions[0]"}},
		"its metadata":                      {"", "", each(everywhere, `apply: {resource: v1/configmaps, object: {metadata: "${item.metadata}"}}`), []string{"actions[0]"}},
		"a list of the object, for nothing": {"", "", each("keys(object.data)", constant), []string{"actions[0]"}},
		"a where that several satisfy":      {"", `where: object.metadata.labels.a == "b"`, constant, []string{"actions[0]"}},
		"other names in the source":         {`, fieldSelector: "metadata.name!=a"`, "", constant, []string{"actions[0]"}},
		"the second action":                 {"", "", named("shop", "${object.metadata.name}") + "|" + constant, []string{"actions[1]"}},
		"all elements of the source":        {"", "", each(`byIndex("all", "yes")`, named("shop", "${item.metadata.name}")), []string{"actions[0]"}},
		"the first element of the source":   {"", "", named("shop", `${first(byIndex("all", "yes")).metadata.name}`), []string{"actions[0]"}},
		"an object's value without prune":   {"", "prune: false", constant, []string{"actions[0]"}},
		"a status without prune":            {"", "prune: false", `apply: {resource: v1/pods/status, object: {metadata: {namespace: shop, name: all}, status: {phase: "${object.data.x}"}}}`, []string{"actions[0]"}},

		"without prune, the same for all":     {"", "prune: false", `apply: {resource: v1/configmaps, object: {metadata: {namespace: shop, name: all}, data: {x: '${string(len(byIndex("all", "yes")))}'}}}`, nil},
		"without prune, a list for all":       {"", "prune: false", each(everywhere, named("${item.metadata.name}", "all")), nil},
		"without prune, the object's name":    {"", "prune: false", named("shop", "${object.metadata.name}"), nil},
		"a group":                             {"", "delivery: latest\n  group: {by: 'object.metadata.namespace', every: 1m}\n  prune: false", constant, nil},
		"elements that the object chooses":    {"", "", each(`byIndex("all", object.data.x)`, named("shop", "${item.metadata.name}")), nil},
		"the object's name":                   {"", "", named("shop", "a-${object.metadata.name}"), nil},
		"the object's namespace":              {"", "", named("${object.metadata.namespace}", "all"), nil},
		"a label of the object":               {"", "", named("shop", "${object.metadata.labels.app}"), nil},
		"the state before":                    {"", "", named("shop", "${old.metadata.name}"), nil},
		"the event":                           {"", "", named("shop", "${event}"), nil},
		"the time":                            {"", "", named("shop", "${string(now().Unix())}"), nil},
		"elements of the object":              {"", "", each("keys(object.data)", named("shop", "${item}")), nil},
		"elements chosen by the object":       {"", "", each(`lookup("namespaces.active", object.data.x)`, named("${item.metadata.name}", "all")), nil},
		"chosen by the object":                {"", "", named("shop", `${object.data.x == "a" ? "a" : "b"}`), nil},
		"a whole object that the object has":  {"", "", each("object.data.all", `apply: {resource: v1/configmaps, object: "${item}"}`), nil},
		"a where that one satisfies":          {"", `where: object.metadata.name == "a"`, constant, nil},
		"a when that one satisfies":           {"", `when: object.metadata.name == "a"`, constant, nil},
		"an if that one satisfies":            {"", "", `{if: object.metadata.name == "a", ` + constant + `}`, nil},
		"one name in the source":              {`, fieldSelector: "metadata.name=a"`, "", constant, nil},
		"one name in each of some namespaces": {`, namespaces: [a, b], fieldSelector: "metadata.name=a"`, "", constant, nil},
		"a status":                            {"", "", `apply: {resource: v1/pods/status, object: {metadata: {namespace: shop, name: all}, status: {phase: Failed}}}|` + named("shop", "${object.metadata.name}"), nil},
		"create":                              {"", "", `create: {resource: v1/configmaps, object: {metadata: {namespace: shop, name: all}}}|` + named("shop", "${object.metadata.name}"), nil},
	} {
		rest := c.rest
		if !strings.Contains(rest, "prune") {
			rest += "\n  prune: true"
		}
		var actions strings.Builder
		for _, a := range strings.Split(c.action, "|") {
			if !strings.HasPrefix(a, "{") {
				a = "{" + a + "}"
			}
			actions.WriteString("  - " + a + "\n")
		}
		text := fmt.Sprintf(`apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps, indexes: {all: '"yes"'}%s}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: namespaces}
spec: {resource: v1/namespaces, indexes: {active: 'object.status.phase == "Active" ? "yes" : nil'}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: copies}
spec:
  source: maps
  %s
  actions:
%s`, c.source, rest, actions.String())
		cfg, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: []byte(text)}})
		p, more := Compile(cfg)
		if mistakes = append(mistakes, more...); len(mistakes) > 0 {
			t.Errorf("%s: %v", why, mistakes)
			continue
		}
		if got := p.Rules[0].Shares(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", why, got, c.want)
		}
	}
}

// The examples name each target after the object that asks for it.
func TestExamplesShareNoTarget(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pruning := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cfg, mistakes := config.Parse([]config.File{{Path: file, Data: data}})
		if len(mistakes) > 0 || len(cfg.Rules) == 0 {
			continue // it needs other files
		}
		p, _ := Compile(cfg)
		for _, r := range p.Rules {
			if r.Prune != nil {
				pruning++
			}
			if labels := r.Shares(); labels != nil {
				t.Errorf("%s: rule %s shares the targets of %v", file, r.Name, labels)
			}
		}
	}
	if pruning == 0 {
		t.Error("no example prunes")
	}
}
