package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChanges(t *testing.T) {
	const was = `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: pods}
spec: {resource: v1/pods, indexes: {byNode: object.spec.nodeName}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: crashes}
spec:
  source: pods
  where: object.spec.nodeName != nil
  actions: [{if: object.a, patch: {merge: {metadata: {labels: {a: "${object.a}"}}}}}]
`
	const more = "---\napiVersion: informd.dev/v1alpha1\nkind: Source\nmetadata: {name: nodes}\nspec: {resource: v1/nodes}\n"
	parse := func(text string) *Config {
		t.Helper()
		c, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(text)}})
		if len(mistakes) > 0 {
			t.Fatal(mistakes)
		}
		return c
	}
	for old, c := range map[string]struct {
		with string
		want []string
	}{
		"crashes":                   {"crashed", []string{"rule crashed is new", "rule crashes is gone"}},
		"byNode: object":            {`byNode: "object`, nil}, // the same, written otherwise
		"apiVersion":                {"\n# moved\napiVersion", nil},
		"nodeName != nil":           {"nodeName == nil", []string{"rule crashes changed"}},
		"${object.a}":               {"${object.b}", []string{"rule crashes changed"}},
		"if: object.a":              {"if: object.b", []string{"rule crashes changed"}},
		"v1/pods":                   {"v1/nodes", []string{"source pods changed"}},
		"byNode":                    {"byHost", []string{"source pods changed"}},
		"metadata: {name: crashes}": {`metadata: {name: crashes, labels: {team: a, "": ""}, annotations: {}}`, nil},
		"metadata: {name: pods}":    {"metadata: {name: pods} # all", nil},
		"object.a}\"}}}}}]\n":       {"object.a}\"}}}}}]\n" + more, []string{"source nodes is new"}},
		"  source: pods\n":          {"  source: pods\n  resync: 1h\n", []string{"rule crashes changed"}},
		"spec: {resource: v1/pods":  {"spec: {namespaces: [a], resource: v1/pods", []string{"source pods changed"}},
	} {
		text := strings.Replace(was, old, c.with, 1)
		if strings.HasPrefix(c.with, `byNode: "`) {
			text = strings.Replace(text, "nodeName}}", `nodeName"}}`, 1)
		}
		if diff := cmp.Diff(c.want, Changes(parse(was), parse(text))); diff != "" {
			t.Errorf("%s → %s (-want +got)\n%s", old, c.with, diff)
		}
	}
}
