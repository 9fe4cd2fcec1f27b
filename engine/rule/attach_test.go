package rule

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// finding finds the same objects in any index. It decodes only the given paths of them.
type finding struct {
	everything
	Found
	objects []*object.Object
	paths   *object.Paths
}

func (f *finding) Lookup(_, _, _ string) expr.Found {
	return expr.Found{Len: len(f.objects), Trees: func(yield func(any) bool) {
		for _, o := range f.objects {
			tree := o.Decode(f.paths)
			f.Add(tree, o)
			if !yield(tree) {
				return
			}
		}
	}}
}

// attach evaluates an attachment that finds three nodes. It returns what the attachment adds, and
// the nodes.
func attach(t *testing.T, text string) (map[string][]json.RawMessage, []*object.Object, error) {
	t.Helper()
	p, err := expr.Compile(text, expr.Options{Scope: expr.Attach, Sources: map[string][]string{"nodes": {"byName"}}})
	if err != nil {
		t.Fatal(err)
	}
	look := &finding{paths: p.Lookups()["nodes"]}
	for _, text := range []string{
		`{"metadata":{"name":"n1"},"spec":{"size":1.0,"large":9007199254740993}}`,
		`{"metadata":{"name":"n2"},"spec":{"size":2}}`,
		`{"metadata":{"name":"n3"},"spec":{"size":3,"text":"` + strings.Repeat("x", 3<<20) + `"}}`,
	} {
		o, err := object.FromJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		look.objects = append(look.objects, o)
	}
	r := &Rule{Name: "r", Attached: []Attachment{{"nodes", p}}}
	out, err := r.Attach(delta.Delta{Type: delta.Added, Object: pod(t, 1, "Running", "web")}, look)
	return out, look.objects, err
}

// An attachment is the object's own text, though the rule decoded less of it. Nothing encodes it
// again.
func TestAttach(t *testing.T) {
	for _, test := range []struct {
		why, text string
		want      []int
	}{
		{"all that are found", `take(lookup("nodes.byName", "x"), 2)`, []int{0, 1}},
		{"some of them", `filter(lookup("nodes.byName", "x"), .spec.size < 3)`, []int{0, 1}},
		{"one of them", `find(lookup("nodes.byName", "x"), .metadata.name == "n2")`, []int{1}},
		{"one of them, of which nothing was decoded", `first(lookup("nodes.byName", "x"))`, []int{0}},
		{"one of them twice", `[first(lookup("nodes.byName", "x")), first(lookup("nodes.byName", "x"))]`, []int{0, 0}},
		{"none of them", `filter(lookup("nodes.byName", "x"), false)`, []int{}},
		{"nil", `lookup("nodes.byName", object.no)`, []int{}},
	} {
		t.Run(test.why, func(t *testing.T) {
			got, objects, err := attach(t, test.text)
			if err != nil {
				t.Fatal(err)
			}
			want := []json.RawMessage{}
			for _, i := range test.want {
				want = append(want, objects[i].JSON())
			}
			if diff := cmp.Diff(map[string][]json.RawMessage{"nodes": want}, got); diff != "" {
				t.Errorf("%.400s", diff)
			}
		})
	}
}

func TestAttachErrors(t *testing.T) {
	for text, want := range map[string]string{
		`map(lookup("nodes.byName", "x"), {{name: 1}})`: "attach nodes: attach gives a map that the expression made",
		`"text"`: "attach nodes: attach gives a string, not objects",
		`concat(lookup("nodes.byName", "x"), lookup("nodes.byName", "x"), lookup("nodes.byName", "x"))`: "attach nodes: the objects exceed 8 MiB",
	} {
		if _, _, err := attach(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Found must not take a map that the expression made for a tree that was at the same address
// before.
func TestFoundKeepsTrees(t *testing.T) {
	var found Found
	o := pod(t, 1, "Running", "web")
	for i := range 10_000 {
		found.Add(map[string]any{"a": i}, o)
		made := map[string]any{"b": fmt.Sprint(i)}
		if found.Object(made) != nil {
			t.Fatal("Found returns an object for a map that was never added")
		}
	}
	found.Add(nil, o)
	if found.Object(nil) != nil {
		t.Error("Found returns an object for nil")
	}
}
