package object

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/informd/informd/engine/object/scan"
)

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"shop","uid":"u1","resourceVersion":"7",` +
	`"labels":{"app.kubernetes.io/name":"web","tier":"<front>"},"managedFields":[{"manager":"kubectl","fieldsV1":{"f:x":{}}}]},` +
	`"spec":{"nodeName":"n1","replicas":9007199254740993,"ratio":0.5,"containers":[{"name":"a","image":"x:1"},{"name":"b","image":"y:2"}]}}`

func mustObject(t testing.TB, text string) *Object {
	t.Helper()
	o, err := FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestIdentity(t *testing.T) {
	o := mustObject(t, " "+strings.ReplaceAll(pod, ",", " ,\n"))
	if o.Namespace() != "shop" || o.Name() != "web-0" || o.UID() != "u1" || o.ResourceVersion() != "7" || o.Key() != "shop/web-0" {
		t.Errorf("identity of %s", o.JSON())
	}
	if strings.Contains(string(o.JSON()), "managedFields") {
		t.Errorf("managedFields are still in %s", o.JSON())
	}
	if strings.ContainsAny(string(o.JSON()), " \n") {
		t.Errorf("not compact: %s", o.JSON())
	}
	want := map[string]string{"app.kubernetes.io/name": "web", "tier": "<front>"}
	if diff := cmp.Diff(want, o.Labels()); diff != "" {
		t.Error(diff)
	}
	accessor, err := meta.Accessor(o)
	if err != nil {
		t.Fatal(err)
	}
	accessor.SetName("changed")
	if accessor.GetNamespace() != "shop" || accessor.GetName() != "web-0" || accessor.GetUID() != "u1" || o.Name() != "web-0" {
		t.Errorf("client-go reads the identity %s/%s", accessor.GetNamespace(), accessor.GetName())
	}
}

func TestReadingMetadataAllocatesNothing(t *testing.T) {
	var o runtime.Object = mustObject(t, pod)
	allocations := testing.AllocsPerRun(100, func() {
		accessor, err := meta.Accessor(o)
		if err != nil || accessor.GetName() != "web-0" || accessor.GetResourceVersion() != "7" || accessor.GetOwnerReferences() != nil {
			t.Fatal("the accessor is not the object's metadata")
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// informd keeps an object for a long time, so its text must not hold spare memory.
func TestKeptObjectsHoldNoSpareMemory(t *testing.T) {
	o := mustObject(t, strings.Replace(pod, "x:1", strings.Repeat("x", 1000), 1))
	keep := Identity()
	keep.Add("spec")
	pruned := prune(o, keep)
	if want := cap(bytes.Clone(pruned.JSON())); cap(pruned.JSON()) > want {
		t.Errorf("the pruned object holds %d bytes of memory for %d bytes of text", cap(pruned.JSON()), len(pruned.JSON()))
	}
	bare := prune(o, nil)
	if want := `{"metadata":{"name":"web-0","namespace":"shop","uid":"u1","resourceVersion":"7"}}`; string(bare.JSON()) != want {
		t.Errorf("without paths %s is kept, want %s", bare.JSON(), want)
	}
}

func TestManagedFieldsAreCutAnywhere(t *testing.T) {
	for in, want := range map[string]string{
		`{"metadata":{"managedFields":[1,{"a":"}"}]}}`:                      `{"metadata":{}}`,
		`{"metadata":{"managedFields":null,"name":"a"}}`:                    `{"metadata":{"name":"a"}}`,
		`{"metadata":{"name":"a","managedFields":[]}}`:                      `{"metadata":{"name":"a"}}`,
		`{"metadata":{"name":"a","managedFields":[],"uid":"b"}}`:            `{"metadata":{"name":"a","uid":"b"}}`,
		`{"a":1,"metadata":{"managedFields":1,"managedFields":2},"b":2}`:    `{"a":1,"metadata":{},"b":2}`,
		`{"metadata":{"\u006danagedFields":[]}}`:                            `{"metadata":{}}`,
		`{"metadata":{"name":"a"},"metadata":{"managedFields":1}}`:          `{"metadata":{"name":"a"},"metadata":{}}`,
		`{"metadata":null,"\u006detadata":{"managedFields":1,"uid":"b"}}`:   `{"metadata":null,"\u006detadata":{"uid":"b"}}`,
		`{"spec":{"managedFields":1},"data":{"metadata":"managedFields"}}`:  `{"spec":{"managedFields":1},"data":{"metadata":"managedFields"}}`,
		`{"spec":{"metadata":{"managedFields":[{"in":"a pod template"}]}}}`: `{"spec":{"metadata":{"managedFields":[{"in":"a pod template"}]}}}`,
	} {
		if got := string(mustObject(t, in).JSON()); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

// A hostile object of 1.5 MB has eighty thousand managedFields. A parser that began again after
// each would take minutes.
func TestManagedFieldsAreCutInOnePass(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`"managedFields":1,`, 80_000), ",")
	o := mustObject(t, `{"metadata":{`+many+`,"name":"a",`+many+`}}`)
	if got, want := string(o.JSON()), `{"metadata":{"name":"a"}}`; got != want {
		t.Errorf("the parser keeps %.100s, want %s", got, want)
	}
	if cap(o.JSON()) > 100 {
		t.Errorf("%d bytes are held", cap(o.JSON()))
	}
}

func TestRefusals(t *testing.T) {
	for in, want := range map[string]string{
		``:                          "unexpected EOF",
		`[]`:                        "not a JSON object",
		`null`:                      "not a JSON object",
		`{"a":}`:                    "invalid character",
		`{"metadata":3}`:            "metadata is not an object",
		`{"metadata":{"name":3}}`:   "metadata.name is not a string",
		`{"metadata":{"uid":[3]}}`:  "metadata.uid is not a string",
		`{"metadata":{},"a":1e999}`: "a number is out of range",
		`{} {}`:                     "after the value",
	} {
		if _, err := FromJSON([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: error %v, want one with %q", in, err, want)
		}
	}
}

// A Parser accepts the depth that apimachinery decodes, and no more, whichever part it reads.
func TestDepth(t *testing.T) {
	nested := func(depth int, around string) []byte {
		opened, closed, _ := strings.Cut(around, "_")
		depth--
		return []byte(`{"a":` + strings.Repeat(opened, depth) + `1` + strings.Repeat(closed, depth) + `,"metadata":{"name":"x"}}`)
	}
	for _, around := range []string{`[_]`, `{"a":_}`} {
		for depth, fits := range map[int]bool{maxDepth: true, maxDepth + 1: false, 100 * maxDepth: false} {
			text := nested(depth, around)
			if _, fit := oracle(text); fit != fits {
				t.Fatalf("apimachinery decodes %s nested %d deep: %v", around, depth, fit)
			}
			for _, p := range []*Parser{NewParser(nil, nil), NewParser(nil, &everything), NewParser(splitPaths("b"), nil), NewParser(splitPaths("a.[].a"), splitPaths("a.a.[]"))} {
				o, _, err := parse(p, text)
				unfit := new(UnfitError)
				switch {
				case fits && err != nil, !fits && !errors.As(err, &unfit):
					t.Errorf("%s nested %d deep: error %v", around, depth, err)
				case fits:
					o.Decode(&everything)
					prune(o, splitPaths("a.[].a"))
				case unfit.Identity == nil || unfit.Identity.Name() != "x":
					t.Errorf("%s nested %d deep: identity %v", around, depth, unfit.Identity)
				}
			}
		}
	}
}

func TestUnfitObjectsAreIdentified(t *testing.T) {
	for text, want := range map[string]string{
		`{"metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"d"},"x":1e999}`: `{"metadata":{"name":"a","namespace":"b","resourceVersion":"d","uid":"c"}}`,
		`{"metadata":{"name":3,"namespace":"b\"\u00e9"}}`:                                     `{"metadata":{"namespace":"b\"é"}}`,
		`{"metadata":3}`: ``, `[{"metadata":{"name":"a"}}]`: ``, `null`: ``,
	} {
		s := scan.New([]byte(text + " 1 "))
		o, view, err := NewParser(nil, nil).Parse(&s)
		unfit := new(UnfitError)
		if !errors.As(err, &unfit) || o != nil || view != nil {
			t.Fatalf("%s: error %v", text, err)
		}
		got := ""
		if unfit.Identity != nil {
			got = string(unfit.Identity.JSON())
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if next, err := s.Skip(); string(next) != "1" || err != nil {
			t.Errorf("%s: then comes %s, error %v", text, next, err)
		}
	}
}

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		paths [][]string
		want  any
	}{
		"nothing is asked for":         {nil, nil},
		"one field":                    {[][]string{{"spec", "nodeName"}}, tree("spec", tree("nodeName", "n1"))},
		"integers stay integers":       {[][]string{{"spec", "replicas"}}, tree("spec", tree("replicas", int64(1<<53+1)))},
		"floats":                       {[][]string{{"spec", "ratio"}}, tree("spec", tree("ratio", 0.5))},
		"absent stays absent":          {[][]string{{"status", "phase"}}, map[string]any{}},
		"a path through a plain value": {[][]string{{"spec", "nodeName", "x"}}, tree("spec", tree("nodeName", "n1"))},
		"a field of each element": {[][]string{{"spec", "containers", Each, "image"}},
			tree("spec", tree("containers", []any{tree("image", "x:1"), tree("image", "y:2")}))},
		"a name where there is a list": {[][]string{{"spec", "containers", "image"}},
			tree("spec", tree("containers", []any{nil, nil}))},
		"keys with dots and slashes": {[][]string{{"metadata", "labels", "app.kubernetes.io/name"}},
			tree("metadata", tree("labels", tree("app.kubernetes.io/name", "web")))},
		"each value of a map": {[][]string{{"metadata", "labels", Each}},
			tree("metadata", tree("labels", map[string]any{"app.kubernetes.io/name": "web", "tier": "<front>"}))},
	} {
		t.Run(name, func(t *testing.T) {
			var p Paths
			for _, path := range c.paths {
				p.Add(path...)
			}
			if diff := cmp.Diff(c.want, mustObject(t, pod).Decode(&p)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func tree(key string, value any) map[string]any { return map[string]any{key: value} }

func TestDecoderRemembersAChange(t *testing.T) {
	p := pathsOf("spec", "nodeName")
	d := NewDecoder(&p)
	before, after := mustObject(t, pod), mustObject(t, strings.Replace(pod, "n1", "n2", 1))
	first := d.Tree(before).(map[string]any)
	d.Tree(after)
	first["mark"] = true
	if d.Tree(before).(map[string]any)["mark"] != true {
		t.Error("the decoder decoded the old state again")
	}
	d.Tree(mustObject(t, pod)) // replaces after, the least recently used
	if d.Tree(before).(map[string]any)["mark"] != true {
		t.Error("the decoder forgot the most recently used tree")
	}
	if d.Tree(nil) != nil {
		t.Error("the decoder returns a tree for nil")
	}
	third := mustObject(t, pod)
	d.Remember(third, "what the parser saw")
	d.Remember(third, "and again")
	if d.Tree(third) != "and again" || d.Tree(before).(map[string]any)["mark"] != true {
		t.Error("Remember must replace only the least recently used tree")
	}
}

func TestPaths(t *testing.T) {
	var p Paths
	p.Add("spec", "containers", Each, "image")
	p.Add("metadata", "labels")
	p.Add("metadata", "labels", "app") // metadata.labels covers it already
	if got, want := p.String(), "metadata.labels spec.containers[].image"; got != want {
		t.Errorf("paths %q, want %q", got, want)
	}
	for path, want := range map[string]bool{
		"metadata/labels": true, "metadata/labels/app": true, "metadata": false, "spec/containers/[]/image": true,
		"spec/containers/3/image": true, "spec/containers": false, "": false,
	} {
		if got := p.Covers(strings.Split(path, "/")...); got != want {
			t.Errorf("covers %q: %v, want %v", path, got, want)
		}
	}
	var all Paths
	all.Add()
	all.Add("spec")
	if !all.Covers() || all.String() != "." {
		t.Errorf("everything is %q", all.String())
	}
}
