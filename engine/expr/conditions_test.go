package expr

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// written renders conditions as the tests write them.
func written(conditions []Condition) string {
	var out []string
	for _, c := range conditions {
		out = append(out, fmt.Sprintf("%s=%s", strings.Join(c.Path, "."), strings.Join(c.Values, "|")))
	}
	return strings.Join(out, " ")
}

func TestRequires(t *testing.T) {
	for _, test := range []struct{ why, text, want string }{
		{"a field is equal to a constant", `object.metadata.namespace == "shop"`, "metadata.namespace=shop"},
		{"the other way round", `"shop" == object.metadata.namespace`, "metadata.namespace=shop"},
		{"a label", `object.metadata.labels["app.kubernetes.io/name"] == "web"`, "metadata.labels.app.kubernetes.io/name=web"},
		{"optional chaining", `object?.metadata?.labels?.app == "web"`, "metadata.labels.app=web"},
		{"a key and a constant that are put together", `object.metadata["na" + "me"] == "we" + "b"`, "metadata.name=web"},
		{"one of several, each once", `object.kind in ["Pod", "Job", "Pod"]`, "kind=Job|Pod"},
		{"one of several by or", `object.a == "x" or object.a == "y" || object.a in ["z", "x"]`, "a=x|y|z"},
		{"brackets and both kinds of and", `((object.a == "x") and (object.b == "y" && (object.c == "z" and object.n > 3)))`, "a=x b=y c=z"},
		{"what stands beside them does not matter", `!object.a && object.b == "y" && any(object.list, .c == "z")`, "b=y"},
		{"of one field, what suits both", `object.a in ["x", "y"] and object.a in ["y", "z"]`, "a=y"},
		{"a contradiction", `object.a == "x" and object.a == "y"`, "a="},
		{"of alternatives, what all of them require", `object.a == "x" and object.b == "1" or object.a == "y" and object.c == "2"`, "a=x|y"},
		{"a variable for a field", `let labels = object.metadata.labels; labels.app == "web"`, "metadata.labels.app=web"},
		{"a variable for a condition", `let web = object.a == "x"; web and object.b == "y"`, "a=x b=y"},
		{"the object itself", `object == "x"`, "=x"},
		{"a key that looks like any element", `object.a["[]"] == "x"`, "a.[]=x"},

		{"nothing: another field may do", `object.a == "x" or object.b == "x"`, ""},
		{"nothing: not", `!(object.a == "x")`, ""},
		{"nothing: different", `object.a != "x"`, ""},
		{"nothing: not among", `object.a not in ["x"]`, ""},
		{"nothing: no constant", `object.a == object.b`, ""},
		{"nothing: nil may be absent", `object.a == nil`, ""},
		{"nothing: numbers are equal to others", `object.n == 3 and object.f in [1.5] and object.b == true`, ""},
		{"nothing: not all are strings", `object.a in ["x", 1]`, ""},
		{"nothing: an empty list", `object.a in []`, ""},
		{"nothing: old is another object", `old.a == "x" and old.b in ["y"]`, ""},
		{"nothing: the event is not a field", `event == "added"`, ""},
		{"nothing: a field that has been worked on", `lower(object.a) == "x" and (object.b ?? "x") == "x" and object.c + "" == "x"`, ""},
		{"nothing: an element", `object.list[0] == "x" and object.list[0].a == "x"`, ""},
		{"nothing: a key that is not constant", `object.labels[object.kind] == "x"`, ""},
		{"nothing: a list or map of the object", `"x" in object.list and "y" in object.labels`, ""},
		{"nothing: of a predicate", `any(object.list, object.a == "x") and none(object.list, .b == "x")`, ""},
		{"nothing: of a constant", `"x" == "x"`, ""},
	} {
		t.Run(test.why, func(t *testing.T) {
			if got := written(mustCompile(t, test.text, Options{Scope: When}).Requires()); got != test.want {
				t.Errorf("%s: got %q, want %q", test.text, got, test.want)
			}
		})
	}
}

// checkRequires checks that a tree for which p is true meets every condition in p.Requires. It
// reports whether p is true.
func checkRequires(t testing.TB, p *Program, object, old any) bool {
	t.Helper()
	ok, err := p.Bool(&Env{Object: object, Old: old, Event: "updated", Now: testTime})
	if !ok || err != nil {
		return false
	}
	for _, c := range p.Requires() {
		v := object
		for _, key := range c.Path {
			v = v.(dict)[key]
		}
		if s, ok := v.(string); !ok || !slices.Contains(c.Values, s) {
			t.Fatalf("%s\nis true of %v, where %s is %v, which is not one of %q", p.Text(), object, strings.Join(c.Path, "."), v, c.Values)
		}
	}
	if !slices.IsSortedFunc(p.Requires(), byPath) {
		t.Errorf("%s: the conditions are not sorted by path: %s", p.Text(), written(p.Requires()))
	}
	return true
}

// FuzzRequires builds conditions and objects from the bytes. The conditions are often true.
func FuzzRequires(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(randomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &writer{data: data}
		p, err := Compile(w.condition(3), Options{Scope: When})
		if err != nil {
			return // the condition combines constants of the wrong kinds
		}
		checkRequires(t, p, w.fields(2), w.fields(2))
	})
}

// FuzzRequires is useful only if most of its conditions require something and enough of them are
// true.
func TestWrittenConditions(t *testing.T) {
	required, holding := 0, 0
	for seed := range uint64(500) {
		w := &writer{data: randomBytes(seed)}
		p, err := Compile(w.condition(3), Options{Scope: When})
		if err != nil || len(p.Requires()) == 0 {
			continue
		}
		required++
		if checkRequires(t, p, w.fields(2), w.fields(2)) {
			holding++
		}
	}
	if required < 200 || holding < 30 {
		t.Errorf("%d of 500 conditions require something, want 200; %d of those are true, want 30", required, holding)
	}
}

func (w *writer) condition(depth int) string {
	if depth == 0 {
		return w.comparison()
	}
	c := func() string { return "(" + w.condition(depth-1) + ")" }
	switch w.choose(12) {
	case 0, 1, 2, 3:
		return c() + w.pick(" and ", " && ") + c()
	case 4, 5:
		return c() + w.pick(" or ", " || ") + c()
	case 6:
		name := fmt.Sprintf("v%d", len(w.names))
		value := w.field()
		if w.choose(2) == 0 {
			value = w.comparison()
		}
		w.names = append(w.names, name)
		text := "let " + name + " = " + value + "; " + w.condition(depth-1)
		w.names = w.names[:len(w.names)-1]
		return text
	case 7:
		return []string{"!", "not ", c() + " ? true : ", c() + " ?? ", c() + "; "}[w.choose(5)] + c()
	}
	return w.comparison()
}

func (w *writer) comparison() string {
	text := func() string { return w.pick(`"a"`, `"a"`, `"x"`, `""`, `"a" + "x"`) }
	switch w.choose(8) {
	case 0, 1, 2:
		return w.field() + " == " + text()
	case 3:
		return text() + " == " + w.field()
	case 4:
		return w.field() + " in [" + text() + ", " + text() + w.pick("", ", nil", ", 1") + "]"
	case 5:
		return w.field() + w.pick(" == nil", ` != "a"`, " == object.b", ` not in ["a"]`, " == 1")
	case 6:
		return w.pick("true", "false", "1 < 2", "nil")
	}
	return w.pick(append(w.names, "object.yes")...)
}

func (w *writer) field() string {
	if w.choose(3) > 0 {
		return w.pick("object.a", "object.a", "object.b")
	}
	return w.pick(append(w.names, `object["a"]`, "object?.m?.a", "object.m.m.b", "object.m[object.a]", "object.l[0]", "old.a", "old.m.a", "object.m", "(object.m).b", "(object.a ?? object.b)")...)
}

// fields returns an object whose fields are mostly strings.
func (w *writer) fields(depth int) any {
	out := dict{"yes": true, "l": list{"a"}}
	for _, name := range []string{"a", "b", "a", "b"} {
		out[name] = []any{"a", "a", "a", "x", "", "ax", nil, int64(1)}[w.choose(8)]
	}
	switch {
	case depth > 0 && w.choose(8) > 0:
		out["m"] = w.fields(depth - 1)
	case w.choose(2) == 0:
		out["m"] = "a"
	}
	return out
}

// The conditions of an exact program decide its result. They must give the same result as an
// evaluation, errors included.
func TestExactPrograms(t *testing.T) {
	trees := []any{nil, "a", int64(1), []any{}}
	for _, a := range []string{`"x"`, `"y"`, `"z"`, `""`, `null`, `1`, `{"c":"x"}`, `["x"]`, `true`} {
		for _, b := range []string{`"x"`, `{"c":"x"}`, `{"c":"y"}`, `{"c":{"d":"x"}}`, `{"c":null}`, `{}`, `null`, `1`} {
			trees = append(trees, tree(t, `{"a":`+a+`,"b":`+b+`}`))
		}
	}
	for text, exact := range map[string]bool{
		`object.a == "x"`:         true,
		`"x" == object.a`:         true,
		`object["b"]["c"] == "x"`: true,
		`object.a in ["x", "y"]`:  true,
		`object.a in ["1", "2", "3", "4", "5", "6", "7", "8", "x"]`:    true,
		`object.a == "x" and object.b.c == "x"`:                        true,
		`object.b.c == "x" && object.a == "x"`:                         true,
		`object.b.c.d == "x" and object.a in ["z","x"]`:                true,
		`object.a == "x" or object.a == "y"`:                           true,
		`object.a == "x" and object.a == "y"`:                          true,
		`(object.a == "x" or object.a in ["y"]) and object.b.c == "x"`: true,
		`object.a == "x" or object.b.c == "x"`:                         false,
		`object.a == "x" and (object.a == "y" or object.b.c == "x")`:   false,
		`(object.a == "x" and object.b.c == "x") or object.a == "y"`:   false,
		`object.a == "x" or (object.a == "y" and object.b.c == "x")`:   false,
		`object.a == "x" and object.b != nil`:                          false,
		`object.a != "x"`:                                              false,
		`object.a == "x" ?? true`:                                      false,
		`!(object.a == "x")`:                                           false,
		`object.a == 1`:                                                false,
		`object.a in ["x", 1]`:                                         false,
		`object.a == "x" ? true : false`:                               false,
		`let a = object.a; a == "x"`:                                   false,
	} {
		p := mustCompile(t, text, Options{Scope: Where})
		if p.exact != exact {
			t.Errorf("%s: exact is %v, want %v", text, p.exact, exact)
		}
		evaluated := *p
		evaluated.exact = false
		for _, tree := range trees {
			got, gotErr := p.Bool(&Env{Object: tree})
			want, wantErr := evaluated.Bool(&Env{Object: tree})
			if got != want || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Errorf("%s of %v: %v, %v, want %v, %v", text, tree, got, gotErr, want, wantErr)
			}
		}
	}
}
