package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocs checks the reference of manifests: its examples parse without a mistake, and its tables
// have a row for every field.
func TestDocs(t *testing.T) {
	var pages [2]string
	for i, page := range []string{"configuration.md", "actions.md"} {
		data, err := os.ReadFile("../docs/reference/" + page)
		if err != nil {
			t.Fatal(err)
		}
		pages[i] = string(data)
	}
	actions, docs := pages[1], pages[0]+pages[1]

	var manifests []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(docs, -1) {
		manifests = append(manifests, block[1])
	}
	if len(manifests) < 4 {
		t.Fatalf("docs/reference has only %d blocks of manifests", len(manifests))
	}
	if _, mistakes := Parse([]File{{Path: "configuration.md", Data: []byte(strings.Join(manifests, "---\n"))}}); len(mistakes) > 0 {
		t.Error(mistakes)
	}

	// For an unknown field that resembles none, the report lists all fields.
	const unknown = `
{kind: Source, spec: {xxxxxxxxxxxxxxxx: 1}, xxxxxxxxxxxxxxxx: 1, metadata: {xxxxxxxxxxxxxxxx: 1}}
---
{kind: Handler, spec: {xxxxxxxxxxxxxxxx: 1, retry: {xxxxxxxxxxxxxxxx: 1}, limits: {xxxxxxxxxxxxxxxx: 1}, files: {xxxxxxxxxxxxxxxx: 1}, access: {xxxxxxxxxxxxxxxx: 1, write: [{xxxxxxxxxxxxxxxx: 1}]}, tls: {xxxxxxxxxxxxxxxx: 1}}}
---
{kind: Rule, spec: {xxxxxxxxxxxxxxxx: 1, actions: [{xxxxxxxxxxxxxxxx: 1, apply: {}}, {apply: {xxxxxxxxxxxxxxxx: 1}}, {create: {xxxxxxxxxxxxxxxx: 1}},
  {patch: {xxxxxxxxxxxxxxxx: 1}}, {delete: {xxxxxxxxxxxxxxxx: 1}}, {event: {xxxxxxxxxxxxxxxx: 1}}]}}
`
	_, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(unknown)}})
	field := regexp.MustCompile(`^unknown field "(.*)xxxxxxxxxxxxxxxx"; the fields are (.*)$`)
	parents := map[string]bool{"metadata": true, "retry": true, "limits": true, "files": true, "access": true, "tls": true}
	found := 0
	for _, m := range mistakes {
		match := field.FindStringSubmatch(m.Message)
		if match == nil {
			continue
		}
		// Tables leave out "spec.". They write the members of a mapping with their parent.
		parent := strings.Replace(strings.TrimPrefix(match[1], "spec."), "write[0]", "write", 1)
		for name := range strings.SplitSeq(match[2], ", ") {
			found++
			if strings.HasPrefix(parent, "actions[") { // one table covers several verbs
				if !regexp.MustCompile("(?m)^\\|[^|]*`" + name + "`").MatchString(actions) {
					t.Errorf("docs/reference has no row for %s%s", match[1], name)
				}
				continue
			}
			if !parents[parent+name] && !strings.Contains(docs, "| `"+parent+name+"` |") {
				t.Errorf("docs/reference has no row for %s%s", match[1], name)
			}
		}
	}
	if found < 75 {
		t.Errorf("the mistakes list only %d fields", found)
	}
}

// TestDocsOfTests checks the reference of Tests: its examples parse without a mistake, and its
// tables have a row for every field.
func TestDocsOfTests(t *testing.T) {
	data, err := os.ReadFile("../docs/reference/tests.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(data)
	var tests []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(docs, -1) {
		tests = append(tests, block[1])
	}
	if len(tests) < 3 {
		t.Fatalf("the page has only %d blocks of manifests", len(tests))
	}
	const rules = `
{apiVersion: informd.dev/v1alpha1, kind: Source, metadata: {name: pods}, spec: {resource: v1/pods}}
---
{apiVersion: informd.dev/v1alpha1, kind: Handler, metadata: {name: oncall}, spec: {builtin: log}}
---
{apiVersion: informd.dev/v1alpha1, kind: Rule, metadata: {name: pending}, spec: {source: pods, handler: oncall}}
`
	_, mistakes := Parse([]File{{Path: "a.yaml", Data: []byte(rules)}, {Path: "tests_test.yaml", Data: []byte(strings.Join(tests, "---\n"))}})
	if len(mistakes) > 0 {
		t.Error(mistakes)
	}

	// For an unknown field that resembles none, the report lists all fields.
	const unknown = `{kind: Test, spec: {xxxxxxxxxxxxxxxx: 1, steps: [{xxxxxxxxxxxxxxxx: 1}, {apply: {xxxxxxxxxxxxxxxx: 1}},
  {patch: {xxxxxxxxxxxxxxxx: 1}}, {delete: {xxxxxxxxxxxxxxxx: 1}}, {restart: {xxxxxxxxxxxxxxxx: 1}}, {relist: {xxxxxxxxxxxxxxxx: 1}},
  {stall: {xxxxxxxxxxxxxxxx: 1}}, {unserve: {xxxxxxxxxxxxxxxx: 1}}, {serve: {xxxxxxxxxxxxxxxx: 1}},
  {answer: {xxxxxxxxxxxxxxxx: 1}}, {expect: [{xxxxxxxxxxxxxxxx: 1}]}]}}`
	_, mistakes = Parse([]File{{Path: "a_test.yaml", Data: []byte(unknown)}})
	field := regexp.MustCompile(`^unknown field "(.*)xxxxxxxxxxxxxxxx"; the fields are (.*)$`)
	place := regexp.MustCompile(`^spec\.(steps\[\d+\]\.)?(expect\[0\]\.)?`)
	found := 0
	for _, m := range mistakes {
		match := field.FindStringSubmatch(m.Message)
		if match == nil || match[1] == "" {
			continue
		}
		for name := range strings.SplitSeq(match[2], ", ") {
			found++
			if row := place.ReplaceAllString(match[1], "") + name; !strings.Contains(docs, "| `"+row+"` |") {
				t.Errorf("docs/reference/tests.md has no row for %s", row)
			}
		}
	}
	if found < 40 {
		t.Errorf("the mistakes list only %d fields", found)
	}
}
