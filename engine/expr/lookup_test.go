package expr

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// found returns the trees that lookup and byIndex yield in these tests.
func found() []any {
	named := func(name string, ready bool) any {
		return map[string]any{"metadata": map[string]any{"name": name}, "ready": ready}
	}
	return []any{named("a", true), named("b", false)}
}

func TestObjects(t *testing.T) {
	attach := payload
	attach.Scope = Attach
	for _, test := range []struct {
		why, text string
		want      []int // indexes into found
		gives     []string
		reads     string // paths of the source nodes
	}{
		{"a list", `lookup("nodes.byName", "x")`, []int{0, 1}, []string{"nodes"}, "."},
		{"some of them", `filter(lookup("nodes.byName", "x"), .ready)`, []int{0}, []string{"nodes"}, "ready"},
		{"one of them", `last(lookup("nodes.byName", "x"))`, []int{1}, []string{"nodes"}, "."},
		{"in another order", `sortBy(lookup("nodes.byName", "x"), .metadata.name, "desc")`, []int{1, 0}, []string{"nodes"}, "metadata.name"},
		{"nil", `find(lookup("nodes.byName", "x"), .gone)`, nil, []string{"nodes"}, "gone"},
		{"a list with nil in it", `[find(lookup("nodes.byName", "x"), .gone), first(lookup("nodes.byName", "x"))]`, []int{0}, []string{"nodes"}, "gone"},
		{"of several sources", `concat(lookup("nodes.byName", "x"), lookup("pods.byNode", "x"), byIndex("byNode", "x"))`, []int{0, 1, 0, 1, 0, 1}, []string{"", "nodes", "pods"}, "."},
		{"under a condition", `object.x == nil ? nil : lookup("nodes.byName", "x")`, nil, []string{"nodes"}, "."},
	} {
		t.Run(test.why, func(t *testing.T) {
			p := mustCompile(t, test.text, attach)
			all := found()
			trees, err := p.Objects(&Env{Cache: cache(func(string, string, string) Found { return foundOf(all) })})
			if err != nil {
				t.Fatal(err)
			}
			if len(trees) != len(test.want) {
				t.Fatalf("got %d objects, want those at %v", len(trees), test.want)
			}
			for i, tree := range trees {
				all[test.want[i]].(map[string]any)["seen"] = i // shows that Objects returned this very map
				if tree["seen"] != i {
					t.Errorf("object %d is a copy, not the map that lookup yielded: %v", i, tree)
				}
			}
			if diff := cmp.Diff(test.gives, p.Gives()); diff != "" {
				t.Error(diff)
			}
			if got := p.Lookups()["nodes"].String(); strings.TrimSuffix(got, ".") != strings.TrimSuffix(test.reads, ".") {
				t.Errorf("reads %q, want %q", got, test.reads)
			}
			if p.Lookups()["nodes"].IsEmpty() {
				t.Error("the program reads no path of nodes, so the objects would decode to nil")
			}
		})
	}
}

func TestValuesThatAreNotObjects(t *testing.T) {
	attach := payload
	attach.Scope = Attach
	for text, want := range map[string]string{
		`"text"`:                              "attach gives a string, not objects that lookup or byIndex gave",
		`[lookup("nodes.byName", "x")]`:       "attach gives a list, not objects that lookup or byIndex gave",
		`len(lookup("nodes.byName", "x"))`:    "attach gives an int, not objects that lookup or byIndex gave",
		`1..1000000`:                          "memory budget of 8 MiB exceeded",
		`lookup("nodes.byName", object.spec)`: "",
	} {
		p := mustCompile(t, text, attach)
		_, err := p.Objects(&Env{
			Object: map[string]any{"spec": map[string]any{}},
			Cache:  cache(func(string, string, string) Found { return foundOf(found()) }),
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
