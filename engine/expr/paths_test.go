package expr

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/object"
)

func TestPaths(t *testing.T) {
	for _, test := range []struct{ why, text, want string }{
		{"a chain of members", `object.status.phase == "Failed"`, "status.phase"},
		{"keys in brackets", `object.metadata.labels["app.kubernetes.io/name"] == "web"`, "metadata.labels.app.kubernetes.io/name"},
		{"optional chaining", `object?.status?.phase == "x"`, "status.phase"},
		{"get with a constant key", `get(object.spec, "nodeName") == "x"`, "spec.nodeName"},
		{"old and object are one set", `old.spec.a != object.spec.b`, "spec.a spec.b"},
		{"nothing at all", `event == "added"`, ""},
		{"the whole object", `len(toJSON(object)) > 5`, "."},
		{"a subtree that is compared", `object.spec != old.spec`, "spec"},
		{"a subtree that is measured", `len(object.metadata.labels) > 5`, "metadata.labels"},
		{"a subtree that is given", `object.spec.containers`, "spec.containers"},
		{"a predicate", `any(object.spec.containers, .image == "x")`, "spec.containers[].image"},
		{"a predicate that uses the element", `any(object.spec.args, # == "x")`, "spec.args[]"},
		{"an index", `object.spec.containers[0].image`, "spec.containers[].image"},
		{"a key that is not constant", `object.metadata.labels[object.kind]`, "kind metadata.labels[]"},
		{"what is there", `old == nil and object.spec.a != nil`, "spec.a."},
		{"what is there, of what is read anyway", `object.spec != nil and object.spec.a == 1`, "spec.a"},
		{"a variable", `let s = object.spec; s.a + s.b`, "spec.a spec.b"},
		{"either of two", `(object.a ?? object.b).c`, "a.c b.c"},
		{"a condition", `(object.a ? object.b : object.c).d`, "a b.d c.d"},
		{"a filtered list", `object.spec.containers | filter(.name != "x") | map(.image)`, "spec.containers[].image spec.containers[].name"},
		{"nested predicates", `any(object.a, let x = .n; any(.list, .m == x))`, "a[].list[].m a[].n"},
		{"lists put together", `concat(object.spec.a, object.spec.b) | map(.image)`, "spec.a[].image spec.b[].image"},
		{"lists in a list of the object's", `flatten(object.spec.a) | map(.image)`, "spec.a[]"},
		{"a map that is made", `{x: object.a, y: object.b}.x.c`, "a.c b.c"},
		{"what an index finds", `any(byIndex("byNode", object.spec.nodeName), .status.phase == "Failed")`, "spec.nodeName status.phase"},
		{"how many an index finds", `len(byIndex("byNode", object.spec.nodeName)) > 1`, "spec.nodeName"},
		{"groups", `map(groupBy(object.a, .k)["x"], .v)`, "a[].k a[].v"},
		{"how many elements there are", `count(object.a, true)`, "a."},
	} {
		t.Run(test.why, func(t *testing.T) {
			if got := mustCompile(t, test.text, payload).Paths().String(); got != test.want {
				t.Errorf("%s: got %q, want %q", test.text, got, test.want)
			}
		})
	}
}

func TestLookups(t *testing.T) {
	for _, test := range []struct{ why, text, own, nodes, pods string }{
		{"what is read of each source", `any(lookup("nodes.byName", object.a), .spec.b == object.c)`, "a c", "spec.b", "none"},
		{"nothing but how many there are", `len(lookup("nodes.byName", "x")) > 1`, "", "", "none"},
		{"all of them", `lookup("nodes.byName", object.a)`, "a", ".", "none"},
		{"one of them", `first(lookup("nodes.byName", object.a)).status.x`, "a", "status.x", "none"},
		{"a look into one for a look into another", `map(lookup("nodes.byName", object.a), map(lookup("pods.byNode", .metadata.name), .spec.x))`, "a", "metadata.name", "spec.x"},
		{"either of two sources", `(object.a ? lookup("nodes.byName", "x") : lookup("pods.byNode", "y")) | map(.b)`, "a", "b", "b"},
		{"together with what byIndex gives", `concat(byIndex("byNode", "x"), lookup("pods.byNode", "x")) | filter(.a) | map(.b)`, "a b", "none", "a b"},
		{"lists of what is found", `flatten(map(object.a, lookup("nodes.byName", #))) | map(.spec)`, "a[]", "spec", "none"},
		{"maps with what is found in them", `flatten([[{x: first(lookup("nodes.byName", "x"))}]]) | map(.x.spec)`, "", "spec x.spec", "none"},
		{"a variable", `let n = find(lookup("nodes.byName", "x"), .spec.ready); n == nil ? "" : n.zone`, "", "spec.ready zone", "none"},
		{"whether there is one", `find(lookup("nodes.byName", "x"), .spec.ready) != nil`, "", "spec.ready", "none"},
	} {
		t.Run(test.why, func(t *testing.T) {
			p := mustCompile(t, test.text, payload)
			got := []string{p.Paths().String(), "none", "none"}
			for i, source := range []string{"nodes", "pods"} {
				if paths, ok := p.Lookups()[source]; ok {
					got[i+1] = paths.String()
				}
			}
			if diff := cmp.Diff([]string{test.own, test.nodes, test.pods}, got); diff != "" {
				t.Errorf("%s: %s", test.text, diff)
			}
		})
	}
}

func TestReads(t *testing.T) {
	for _, test := range []struct {
		text       string
		old, event bool
	}{
		{`object.a`, false, false},
		{`old.a == nil`, true, false},
		{`event == "added"`, false, true},
		{`let older = 1; older`, false, false},
	} {
		p := mustCompile(t, test.text, payload)
		if p.ReadsOld() != test.old || p.ReadsEvent() != test.event {
			t.Errorf("%s: reads old %v, event %v", test.text, p.ReadsOld(), p.ReadsEvent())
		}
	}
}

// outcome evaluates p with both objects decoded to the given paths. It returns the value as JSON,
// or the failure.
func outcome(t testing.TB, p *Program, now, old *object.Object, paths *object.Paths, lookups map[string]*object.Paths) string {
	v, err := p.Value(&Env{
		Object: now.Decode(paths), Old: old.Decode(paths), Event: "updated", Now: testTime,
		Cache: cache(func(source, _, _ string) Found {
			read := paths
			if source != "" && lookups != nil {
				read = lookups[source]
			}
			return foundOf([]any{old.Decode(read), now.Decode(read)})
		}),
	})
	if err == errInternal {
		t.Fatalf("%s: %v", p.Text(), err)
	}
	if err != nil {
		return "failure: " + err.Error()
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%s: %v cannot be encoded: %v", p.Text(), v, err)
	}
	return string(out)
}

// checkPaths checks that p has the same outcome on whole objects, on exactly its own paths, and on
// a superset of them.
func checkPaths(t testing.TB, p *Program, now, old *object.Object) {
	t.Helper()
	var everything, more object.Paths
	everything.Add()
	more.Union(p.Paths())
	for _, path := range [][]string{{"a"}, {"b", "c"}, {"l", object.Each, "a"}, {"metadata", "labels", "app"}, {"spec", object.Each}} {
		more.Add(path...)
	}
	want := outcome(t, p, now, old, &everything, nil)
	for _, paths := range []*object.Paths{p.Paths(), &more} {
		if diff := cmp.Diff(want, outcome(t, p, now, old, paths, p.Lookups())); diff != "" {
			t.Fatalf("%s\non %s\nand %s\ndiffers if only its paths %q are decoded: (-whole +paths)\n%s", p.Text(), now.JSON(), old.JSON(), paths, diff)
		}
	}
}

func mustObject(t testing.TB, text string) *object.Object {
	o, err := object.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// FuzzCompile compiles any text. Compile must never panic. It must return either a mistake inside
// the text or a program that keeps to its paths.
func FuzzCompile(f *testing.F) {
	for _, test := range valueTests {
		f.Add(test.text)
	}
	for _, text := range exampleLines() { // every function and operator
		f.Add(text)
	}
	now := mustObject(f, pod)
	old := mustObject(f, `{"metadata":{"labels":{"app":1}},"spec":{"containers":{"image":"x"},"nodeName":null}}`)
	f.Fuzz(func(t *testing.T, text string) {
		for scope := Where; scope <= ForEach; scope++ {
			p, err := Compile(text, Options{Scope: scope, Indexes: payload.Indexes, Sources: payload.Sources})
			if err != nil {
				e, ok := err.(*Error)
				if !ok || e.Offset < 0 || e.Offset > len(text) || e.Message == "" || strings.Contains(e.Message, "\n") || e.Message == "the expression cannot be compiled" {
					t.Fatalf("%q: %#v", text, err)
				}
				continue
			}
			if scope == Attach {
				if _, err := p.Objects(testEnv(t)); err == errInternal {
					t.Fatal(err)
				}
				continue // the paths leave out the contents of the result, so Value may differ on them
			}
			if scope == ForEach {
				if _, err := p.Elements(testEnv(t)); err == errInternal {
					t.Fatal(err)
				}
				continue // for the same reason
			}
			checkPaths(t, p, now, old)
			checkRequires(t, p, tree(t, pod), nil)
			if _, err := p.Bool(&Env{}); err == errInternal {
				t.Fatal(err)
			}
			if _, err := p.Strings(&Env{}); err == errInternal {
				t.Fatal(err)
			}
		}
	})
}

// FuzzPaths builds an expression and two objects from the bytes.
func FuzzPaths(f *testing.F) {
	for i := range 200 {
		seed := make([]byte, 300)
		for j := range seed {
			seed[j] = byte(i*31 + j*j*17 + j*i*7 + i*i)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &writer{data: data}
		text := w.expression(4)
		now, old := mustObject(t, w.object(3)), mustObject(t, w.object(3))
		p, err := Compile(text, payload)
		if err != nil {
			return // the expression combines constants of the wrong kinds
		}
		checkPaths(t, p, now, old)
		checkRequires(t, p, tree(t, string(now.JSON())), tree(t, string(old.JSON())))
	})
}

// writer builds texts. Each choice consumes bytes of data.
type writer struct {
	data  []byte
	depth int      // how many predicates enclose this place
	names []string // variables in scope
}

func (w *writer) choose(n int) int {
	if len(w.data) == 0 {
		return 0
	}
	c := int(w.data[0]) % n
	w.data = w.data[1:]
	return c
}

func (w *writer) pick(of ...string) string { return of[w.choose(len(of))] }

func (w *writer) object(depth int) string {
	var b strings.Builder
	for i, name := range []string{"a", "b", "l", "m"} {
		if i > 0 {
			b.WriteByte(',')
		}
		value := ""
		switch {
		case depth == 0 || w.choose(5) == 0:
			value = w.json(depth)
		case name == "l":
			value = "[" + w.object(depth-1) + "," + w.pick("", w.json(depth-1)+",") + w.object(depth-1) + "]"
		case name == "m":
			value = w.object(depth - 1)
		default:
			value = w.json(w.choose(depth + 1))
		}
		fmt.Fprintf(&b, "%q:%s", name, value)
	}
	return "{" + b.String() + "}"
}

func (w *writer) json(depth int) string {
	n := 7
	if depth == 0 {
		n = 4
	}
	switch w.choose(n) {
	case 0:
		return w.pick(`"a"`, `"x"`, `"1Gi"`, `""`)
	case 1:
		return w.pick("0", "1", "2.5", "9007199254740993")
	case 2:
		return w.pick("true", "false")
	case 3:
		return "null"
	case 4:
		return "[" + w.json(depth-1) + "," + w.json(depth-1) + "]"
	case 5:
		return "[" + w.object(depth-1) + "," + w.json(depth-1) + "]"
	}
	return w.object(depth - 1)
}

func (w *writer) expression(depth int) string {
	if depth == 0 {
		return w.place()
	}
	e := func() string { return "(" + w.expression(depth-1) + ")" }
	body := func() string {
		w.depth++
		defer func() { w.depth-- }()
		return "{" + w.expression(depth-1) + "}"
	}
	switch w.choose(19) {
	case 0, 1:
		return w.place()
	case 2:
		return e() + "." + w.pick("a", "b", "l", "m")
	case 3:
		return e() + "[" + w.pick("0", "1", "-1", `"a"`, `"l"`) + "]"
	case 4:
		return e() + "[" + w.expression(depth-1) + "]"
	case 5:
		return w.place() + w.pick("==", "!=", "<", ">=", "+", "-", "in", "and", "or", "??", "contains", "..") + w.place()
	case 6:
		return e() + w.pick(" == ", " != ", " ?? ", " and ", " + ", " in ") + e()
	case 7:
		return e() + w.pick(" == nil", " != nil", "[1:]", "[:1]")
	case 8, 9:
		return w.pick("filter", "find", "map", "any", "count", "groupBy", "sortBy", "findLast", "all", "sum", "findIndex") + "(" + e() + "," + body() + ")"
	case 10:
		return "reduce(" + e() + "," + body() + w.pick("", ", 1", ", object.a") + ")"
	case 11:
		return w.pick("len", "keys", "values", "first", "last", "reverse", "uniq", "sort", "flatten", "type", "toJSON", "string", "count", "sum", "toPairs", "upper", "min", "quantity") + "(" + e() + ")"
	case 12:
		return w.pick("concat", "get", "take", "join", "max") + "(" + e() + "," + e() + ")"
	case 13:
		return e() + "?" + e() + ":" + e()
	case 14:
		name := fmt.Sprintf("v%d", len(w.names))
		value := e()
		w.names = append(w.names, name)
		text := "(let " + name + " = " + value + "; " + w.expression(depth-1) + ")"
		w.names = w.names[:len(w.names)-1]
		return text
	case 15:
		return "[" + e() + "," + e() + "]"
	case 16:
		return "{x: " + e() + ", a: " + e() + "}"
	case 17:
		return w.pick("!", "-") + e()
	}
	return w.pick(`byIndex("byNode", "x")`, `byIndex("byNode", object.a)`, `lookup("nodes.byName", object.b)`, `lookup("pods.byNode", "x")`, "("+e()+";"+e()+")")
}

func (w *writer) place() string {
	places := []string{"object", "object.a", "object.b", "object.l", "old.a.b", "object.m.a", "object.m.l", "old.l", "object.m.m.l", "object.l[0].m", "1", `"a"`, "nil", "true"}
	if w.depth > 0 {
		places = append(places, "#", "#.a", ".b", ".l", ".a.b", "#index")
	}
	places = append(places, w.names...)
	return w.pick(places...)
}
