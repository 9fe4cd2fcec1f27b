package expr

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/expr/value"
)

// Every example in docs/reference/expressions.md gives the documented result.
func TestDocumentation(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	sample := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(doc)
	if sample == nil {
		t.Fatal("the sample object is missing")
	}
	env := &Env{Object: tree(t, string(sample[1])), Event: "added", Now: testTime}
	examples := regexp.MustCompile("(?m)^\\| `(.*)` \\| `(.*)` \\|$").FindAllStringSubmatch(string(doc), -1)
	if len(examples) < 80 {
		t.Errorf("only %d examples found", len(examples))
	}
	for _, example := range examples {
		text, want := strings.ReplaceAll(example[1], `\|`, "|"), example[2]
		t.Run(text, func(t *testing.T) {
			v, err := mustCompile(t, text, payload).Value(env)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(normalize(t, want), normalize(t, string(got))); diff != "" {
				t.Errorf("(-documented +is)\n%s", diff)
			}
		})
	}
}

func normalize(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// docs/reference/expressions.md mentions every function.
func TestDocumentationIsComplete(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	names := functionNames()
	for name := range value.Methods {
		names = append(names, name)
	}
	for name := range absent {
		if !strings.HasPrefix(name, "bit") {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if !regexp.MustCompile(`\b` + name + `\b`).Match(doc) {
			t.Errorf("docs/reference/expressions.md does not mention %s", name)
		}
	}
}

// docs/reference/expressions.md says correctly which rules informd can look up.
func TestDocumentationOfLookups(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "## Many rules")
	section, _, _ = strings.Cut(section, "\n## ")
	examples := regexp.MustCompile("(?m)^\\| `(.*)` \\| (nothing|the)\\b").FindAllStringSubmatch(section, -1)
	if len(examples) < 10 {
		t.Errorf("only %d examples found", len(examples))
	}
	for _, example := range examples {
		requires := mustCompile(t, example[1], Options{Scope: Where}).Requires()
		if want := example[2] == "the"; want != (len(requires) == 1) {
			t.Errorf("%s: the documentation says looked up: %v, but it requires %q", example[1], want, written(requires))
		}
	}
}
