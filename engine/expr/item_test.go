package expr

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/expr/value"
	"github.com/informd/informd/engine/object"
)

// forEach compiles a list, and an expression that is evaluated for each of its items.
func forEach(t testing.TB, list, of string) (*Program, *Program) {
	t.Helper()
	each := payload
	each.Scope = ForEach
	items := mustCompile(t, list, each)
	with := payload
	with.Item = items
	return items, mustCompile(t, of, with)
}

func TestItems(t *testing.T) {
	for _, test := range []struct{ list, of, want string }{
		{`object.spec.containers`, `item.name`, `["a","b","c"]`},
		{`filter(object.spec.containers, .name != "c")`, `item.image + event`, `["x:1updated","y:2updated"]`},
		{`map(object.spec.containers, {{n: .name, i: .image}})`, `item.i`, `["x:1","y:2","x:1"]`},
		{`1..3`, `item * object.spec.replicas`, `[3,6,9]`},
		{`[9007199254740993]`, `item`, `[9007199254740993]`},
		{`[1, nil, 2]`, `item`, `[1,2]`},
		{`[time("2026-01-02T03:04:05Z"), quantity("1Gi")]`, `type(item)`, `["time","quantity"]`},
		{`object.no`, `item`, `null`},
		{`[]`, `item`, `null`},
		{`[[1], [2]]`, `let x = item; x[0]`, `[1,2]`},
		{`toPairs(object.metadata.labels)`, `item[0] + "=" + item[1]`, `["app=web","app.kubernetes.io/name=web","tier=front"]`},
		{`lookup("nodes.byName", "x")`, `item.metadata.name`, `["a","b"]`},
	} {
		t.Run(test.list, func(t *testing.T) {
			items, of := forEach(t, test.list, test.of)
			env := testEnv(t)
			env.Cache = cache(func(string, string, string) Found { return foundOf(found()) })
			if got := itemsOf(t, items, of, env); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// itemsOf evaluates the second program for each item. It returns the values as JSON, or the
// failure. Each must give the same items as Elements.
func itemsOf(t testing.TB, items, of *Program, env *Env) string {
	t.Helper()
	result := func(list []any, err error) string {
		if err != nil {
			return "failure: " + err.Error()
		}
		var out []any
		for _, env.Item = range list {
			v, err := of.Value(env)
			if err != nil {
				v = "failure: " + err.Error()
			}
			out = append(out, v)
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want := result(items.Elements(env))
	var each []any
	err := items.Each(env, func(item any) error {
		each = append(each, item)
		return nil
	})
	if got := result(each, err); got != want {
		t.Fatalf("for each of %s: Each gives %s, Elements %s", items.Text(), got, want)
	}
	return want
}

func TestPathsReadByItems(t *testing.T) {
	for _, test := range []struct{ list, of, own, nodes string }{
		{`object.spec.containers`, `item.name`, "spec.containers[]. spec.containers[].name", "none"},
		{`object.spec.containers`, `item`, "spec.containers[]", "none"},
		{`object.spec.containers`, `1`, "spec.containers[].", "none"},
		{`lookup("nodes.byName", object.a)`, `item.metadata.name`, "a", ". metadata.name"},
		{`lookup("nodes.byName", object.a)`, `1`, "a", "."},
		{`lookup("nodes.byName", object.a)`, `item`, "a", "."},
		{`filter(lookup("nodes.byName", object.a), .ready)`, `item.spec.x + object.b`, "a b", "ready spec.x"},
		{`byIndex("byNode", "x")`, `item.spec.x`, ". spec.x", "none"},
		{`concat(byIndex("byNode", "x"), lookup("nodes.byName", "x"))`, `item.spec.x`, ". spec.x", ". spec.x"},
		{`map(lookup("nodes.byName", "x"), {{n: .metadata.name, all: #}})`, `item.n`, "", "."},
		{`map(lookup("nodes.byName", "x"), .spec.list)`, `item[0].y`, "", "spec.list. spec.list[].y"},
		{`groupBy(lookup("nodes.byName", "x"), .zone) | values()`, `first(item).metadata.name`, "", "."},
	} {
		t.Run(test.list+" "+test.of, func(t *testing.T) {
			items, of := forEach(t, test.list, test.of)
			paths := map[string]*object.Paths{}
			for _, p := range []*Program{items, of} {
				union(paths, "", p.Paths())
				for name, read := range p.Lookups() {
					union(paths, name, read)
				}
			}
			got := []string{paths[""].String(), "none"}
			if nodes := paths["nodes"]; nodes != nil {
				got[1] = nodes.String()
			}
			if diff := cmp.Diff([]string{test.own, test.nodes}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func union(to map[string]*object.Paths, name string, paths *object.Paths) {
	if to[name] == nil {
		to[name] = new(object.Paths)
	}
	to[name].Union(paths)
}

// FuzzItems builds a list and two objects from the bytes. Each item gives the same on whole objects
// as on only the paths that the two programs report.
func FuzzItems(f *testing.F) {
	for i := range 200 {
		seed := make([]byte, 300)
		for j := range seed {
			seed[j] = byte(i*29 + j*j*13 + j*i*5 + i*i*3)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &writer{data: data}
		each := payload
		each.Scope = ForEach
		list := w.pick("object", "object.a", "object.l", "values(object)", `lookup("nodes.byName", "x")`, `byIndex("byNode", "x")`,
			`map(lookup("nodes.byName", "x"), .a)`, `map(object.l, {{a: #, b: object.b}})`, w.expression(3))
		of := w.pick("item", "item.a", "item.b.c", "item.l[0]", "1", "item == nil", "item.a == object.a", "let x = item; x.a", "len(item)", "map(item, .a)", w.expression(2))
		now, old := mustObject(t, w.object(3)), mustObject(t, w.object(3))
		items, err := Compile(list, each)
		if err != nil {
			return
		}
		with := payload
		with.Item = items
		p, err := Compile(of, with)
		if err != nil {
			return
		}
		paths := map[string]*object.Paths{}
		for _, p := range []*Program{items, p} {
			union(paths, "", p.Paths())
			for name, read := range p.Lookups() {
				union(paths, name, read)
			}
		}
		on := func(read func(source string) *object.Paths) string {
			return itemsOf(t, items, p, &Env{
				Object: now.Decode(read("")), Old: old.Decode(read("")), Event: "updated", Now: testTime,
				Cache: cache(func(source, _, _ string) Found {
					return foundOf([]any{old.Decode(read(source)), now.Decode(read(source))})
				}),
			})
		}
		everything := new(object.Paths)
		everything.Add()
		want := on(func(string) *object.Paths { return everything })
		got := on(func(source string) *object.Paths { return paths[source] })
		if want != got {
			t.Fatalf("for each of %s: %s\non %s and %s\nwhole: %s\npaths: %s (%v)", list, of, now.JSON(), old.JSON(), want, got, paths)
		}
	})
}

func TestMistakesOfItems(t *testing.T) {
	each := payload
	each.Scope = ForEach
	items := mustCompile(t, "object.a", each)
	for _, test := range []struct {
		text string
		item *Program
		want string
	}{
		{"item.a", nil, "item is an element of forEach, and means nothing outside of an action that has one"},
		{"itm.a", items, `unknown name "itm"; did you mean item?`},
		{"container.a", items, `unknown name "container"; the element of forEach is item`},
		{"let item = 1; item", items, "item already has a meaning; choose another name"},
		{"item()", items, `unknown function "item"`},
	} {
		o := payload
		o.Item = test.item
		if _, err := Compile(test.text, o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
		}
	}
	if v, err := mustCompile(t, "let item = 1; item", payload).Value(&Env{}); v != int64(1) || err != nil {
		t.Errorf("outside forEach, item must be a name like any other: got %v, %v", v, err)
	}
}

func TestValuesThatAreNotLists(t *testing.T) {
	each := payload
	each.Scope = ForEach
	for text, want := range map[string]string{
		`"text"`:               "forEach gives a string, not a list",
		`object.metadata`:      "forEach gives a map, not a list",
		`object.spec.replicas`: "forEach gives an int, not a list",
		`true`:                 "forEach gives a bool, not a list",
		`1..10000000`:          "memory budget of 8 MiB exceeded",
		`1..100000`:            "",
	} {
		_, err := mustCompile(t, text, each).Elements(testEnv(t))
		if fmt.Sprint(err) != want && want != "" || want == "" && err != nil {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A Budget bounds several evaluations together. Each evaluation also keeps its own bounds.
func TestBudget(t *testing.T) {
	long, short := mustCompile(t, "all(1..20000, true)", payload), mustCompile(t, "1 + object.a", payload)
	env := &Env{Budget: &Budget{Steps: 2*MaxSteps - 50_000, Memory: 8 * MaxMemory}}
	done := 0
	var err error
	for err == nil && done < 100 {
		if _, err = long.Value(env); err == nil {
			done++
		}
	}
	if err != errBudget || done < 2 || done > 7 {
		t.Errorf("got %v after %d evaluations with %d steps left, want %v after 2 to 7", err, done, env.Budget.Steps, errBudget)
	}
	if _, err := short.Value(env); err != errBudget {
		t.Errorf("got %v, want %v, because the budget is used up", err, errBudget)
	}
	env.Budget = &Budget{Steps: 100 * MaxSteps, Memory: 100 * MaxMemory}
	if _, err := mustCompile(t, "all(1..200000, true)", payload).Value(env); err != value.ErrSteps {
		t.Errorf("got %v, want %v, because one evaluation has its own bound", err, value.ErrSteps)
	}
	env.Budget = &Budget{Steps: MaxSteps, Memory: 1000}
	if _, err := long.Value(env); err != errBudget || env.Budget.Memory < 0 {
		t.Errorf("got %v with %d bytes left, want %v", err, env.Budget.Memory, errBudget)
	}
}
