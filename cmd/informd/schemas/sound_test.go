package schemas

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	k8s "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/schema"
)

// What Check calls impossible never happens: over objects that fit the schema, an expression with a
// mistake is nil, false, or fails. Two fields of different types are left out: if neither is there,
// they are equal.
func TestMistakesAreImpossible(t *testing.T) {
	t.Parallel()
	catalog, _ := BuiltIn()
	const seed = 17
	r := rand.New(rand.NewPCG(seed, seed))
	mistaken := 0
	for _, name := range []string{"v1/pods", "v1/nodes", "apps/v1/deployments", "batch/v1/cronjobs"} {
		parts := strings.Split("/"+name, "/")
		n := len(parts)
		resource := k8s.GroupVersionResource{Group: parts[n-3], Version: parts[n-2], Resource: parts[n-1]}
		of, ok := catalog.Of(resource)
		if !ok {
			t.Fatalf("there are no %s", name)
		}
		var objects []any
		for range 30 {
			objects = append(objects, fitting(r, of, 8))
		}
		for range 1500 {
			text := question(r, of)
			_, mistakes := expr.Check(text, expr.Typing{Object: expr.ObjectOf(name, of)})
			program, err := expr.Compile(text, expr.Options{Scope: expr.Payload})
			if len(mistakes) == 0 || err != nil {
				continue
			}
			mistaken++
			for _, object := range objects {
				v, err := program.Value(&expr.Env{Object: object, Old: object, Event: "updated"})
				if err == nil && v != nil && v != false {
					t.Errorf("%s: %s\nand yet it gives %v", text, mistakes[0], v)
				}
			}
		}
	}
	if mistaken < 500 {
		t.Errorf("only %d expressions had a mistake", mistaken)
	}
}

// fitting returns an object that fits a type.
func fitting(r *rand.Rand, of schema.Type, depth int) any {
	kinds := []schema.Kind{schema.String, schema.Number, schema.Bool, schema.List, schema.Map}
	kind := kinds[r.IntN(len(kinds))]
	for all := of.Kinds(); all != 0 && all&kind == 0; {
		kind = kinds[r.IntN(len(kinds))]
	}
	switch {
	case kind == schema.String:
		if enum := of.Enum(); enum != nil {
			return enum[r.IntN(len(enum))]
		}
		return words[r.IntN(len(words))]
	case kind == schema.Number:
		return int64(r.IntN(3))
	case kind == schema.Bool:
		return r.IntN(2) == 0
	case kind == schema.List && depth > 0:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, fitting(r, of.Element(), depth-1))
		}
		return list
	case kind == schema.List:
		return []any{}
	}
	object := make(map[string]any)
	for _, name := range append(of.Fields(), "zone") {
		if name == "managedFields" { // informd leaves them out of all objects
			continue
		}
		if field, ok := of.Field(name); ok && depth > 0 && r.IntN(3) > 0 {
			object[name] = fitting(r, field, depth-1)
		}
	}
	return object
}

var words = []string{"Failed", "Running", "True", "zone", "1", "x"}

// question returns an expression that compares two things, or asks for one.
func question(r *rand.Rand, of schema.Type) string {
	constant := func() string {
		if r.IntN(2) == 0 {
			return fmt.Sprintf("%q", words[r.IntN(len(words))])
		}
		return []string{"1", "true", "[]", `["Failed", "x"]`, "int(1.5)"}[r.IntN(5)]
	}
	side := func() string {
		if r.IntN(2) == 0 {
			return constant()
		}
		return path(r, of)
	}
	switch r.IntN(8) {
	case 0:
		return path(r, of)
	case 1:
		return fmt.Sprintf("any(%s, .%s == %s)", path(r, of), words[3], constant())
	case 2:
		return fmt.Sprintf("%s in %s", side(), side())
	case 3:
		return fmt.Sprintf("%s %s %s", side(), []string{"contains", "startsWith", "<", ">="}[r.IntN(4)], side())
	case 4:
		return fmt.Sprintf("let x = %s; x == %s", path(r, of), constant())
	}
	return fmt.Sprintf("%s == %s", path(r, of), constant())
}

// path returns a path to some field, which may not be there.
func path(r *rand.Rand, of schema.Type) string {
	text := "object"
	for range 1 + r.IntN(5) {
		fields := of.Fields()
		switch {
		case of.Kinds() == schema.List:
			text, of = text+"[0]", of.Element()
			continue
		case len(fields) == 0 || r.IntN(12) == 0:
			return text + "." + words[3]
		}
		name := fields[r.IntN(len(fields))]
		text += fmt.Sprintf("[%q]", name)
		of, _ = of.Field(name)
	}
	return text
}
