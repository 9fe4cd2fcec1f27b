package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/informd/informd/engine/object/scan"
)

// oracle decodes text as apimachinery does, and drops metadata.managedFields. fit is false if
// apimachinery cannot decode it, or if it has no valid identity.
func oracle(text []byte) (tree map[string]any, fit bool) {
	if err := utiljson.Unmarshal(text, &tree); err != nil || tree == nil {
		return nil, false
	}
	switch meta := tree["metadata"].(type) {
	case nil:
	case map[string]any:
		delete(meta, "managedFields")
		for _, field := range identityFields {
			switch meta[field].(type) {
			case nil, string:
			default:
				return nil, false
			}
		}
	default:
		return nil, false
	}
	return tree, true
}

// cut returns the part of a tree that lies on the paths, straight from the definition of paths.
func cut(tree any, paths [][]string) any {
	if slices.ContainsFunc(paths, func(path []string) bool { return len(path) == 0 }) {
		return tree
	}
	below := func(names ...string) (rest [][]string) {
		for _, path := range paths {
			if slices.Contains(names, path[0]) {
				rest = append(rest, path[1:])
			}
		}
		return rest
	}
	switch node := tree.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range node {
			if rest := below(key, Each); len(rest) > 0 {
				out[key] = cut(value, rest)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, value := range node {
			if rest := below(Each); len(rest) > 0 {
				out = append(out, cut(value, rest))
			} else {
				out = append(out, nil)
			}
		}
		return out
	}
	return tree
}

// equal compares trees. It also tells 0 from -0, and an integer from a float.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && (a == nil) == (b == nil) && maps.EqualFunc(a, b, equal)
	case []any:
		b, ok := b.([]any)
		return ok && (a == nil) == (b == nil) && slices.EqualFunc(a, b, equal)
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	}
	return a == b
}

// spaced inserts white space into JSON wherever JSON allows it.
func spaced(text []byte) (out []byte) {
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			out = append(out, c)
			i++
		case c == '"':
			inString = !inString
		case !inString && strings.IndexByte("{}[]:,", c) >= 0:
			out = append(out, " \r\n\t"...)
			out = append(out, c, '\t')
			continue
		}
		out = append(out, text[i])
	}
	return append(out, '\n')
}

func splitPaths(paths string) *Paths {
	p := new(Paths)
	for path := range strings.FieldsSeq(paths) {
		p.Add(strings.Split(path, ".")...)
	}
	return p
}

func parse(p *Parser, text []byte) (*Object, any, error) {
	s := scan.New(text)
	if _, view, err := p.Parse(&s); err == nil {
		view.Release() // the next view reuses its memory
	}
	s = scan.New(text)
	o, view, err := p.Parse(&s)
	if unfit := new(UnfitError); err == nil || errors.As(err, &unfit) {
		if end := s.End(); end != nil {
			return nil, nil, end
		}
	}
	return o, view.Value(), err
}

// prune parses an object again and keeps only the paths of keep. With a nil keep, it keeps only the
// identity.
func prune(o *Object, keep *Paths) *Object {
	if keep == nil {
		keep = new(Paths)
	}
	pruned, _, err := parse(NewParser(keep, nil), o.JSON())
	if err != nil {
		panic(err)
	}
	return pruned
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(pod), "metadata.labels spec.containers.[].image", "spec.containers status")
	f.Add([]byte(newCluster(1, 1).pod()), "metadata.name status.containerStatuses.[].restartCount", "status.phase")
	for _, text := range []string{
		`{"a":{"b":[1,-2.5e3,"\u00e9\n\ud83d\ude00",true,false,null,{}]},"a\"b":1,"i":-9223372036854775809}`,
		`{"a":1,"a":{"b":2},"a":{"b":{"c":3},"c":{}}}`, `{"a":{"b":{"c":1}},"a":{"b":2}}`, `{"a":{"b":1},"a":[{"b":1},2]}`, `{"a":{"b":1},"a":null}`,
		`{"a":[0,-0,0.0,-0.0,1.0,1e2,9223372036854775807,9223372036854775808,1e-400,123456789012345678901234567890]}`,
		`{"a":1e400}`, `{"a":-1e400,"metadata":{"name":"x"}}`, `{"metadata":{"managedFields":[1e999]}}`, `{"a":1` + strings.Repeat("0", 400) + `}`,
		`{"a":"\ud800","b":"\udc00\ud800","c":"\ud800\u0041","\ud800":1}`, "{\"a\":\"\xff\xfeok\xe2\x82\",\"b\xff\":{\"b\":\"\xc3\x28\"},\"metadata\":{\"name\":\"\xff\"}}",
		`{"metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"d"}}`, `{"metadata":{"name":"a\/b","namespace":"\u00e9"}}`,
		`{"metadata":{"name":"a","name":"b"},"metadata":{"uid":"c"}}`, `{"metadata":{"name":1,"name":"b"}}`, `{"metadata":{"name":"b","name":1}}`,
		`{"metadata":{"name":"b","name":null}}`, `{"metadata":{"name":["b"]}}`, `{"metadata":{"name":{"b":"c"}}}`, `{"metadata":[]}`, `{"metadata":3,"metadata":{"name":"x"}}`,
		`{"metadata":{"name":"x"},"metadata":3}`, `{"metadata":null}`, `{"Metadata":{"Name":"x"}}`, `{"\u006detadata":{"n\u0061me":"x","managed\u0046ields":1}}`,
		`{"metadata":{"managedFields":[{"a":1}],"name":"x"}}`, `{"metadata":{"name":"x","managedFields":{}}}`, `{"metadata":{"managedFields":1}}`,
		`{"metadata":{"managedFields":1,"a":1,"managedFields":2,"managedFields":3,"b":2,"managedFields":4}}`, `{"a":{"managedFields":1},"managedFields":2}`,
		`{}`, `[]`, `null`, `3`, `"a"`, `{"a":1}{}`, `{"a":1},`, `{"a":1,}`, `{"a":[1,]}`, `{"a" 1}`, `{"a":01}`, `{"a":"` + "\n" + `"}`, `{"a":tru}`, `{"a":nul`, `{1:2}`, "\ufeff{}",
		`{"":{"":[]},"[]":{"[]":1}}`, `{"a":` + strings.Repeat(`[{"a":`, 70) + `1` + strings.Repeat(`}]`, 70) + `}`, "{\"a\":1}\x00",
	} {
		f.Add([]byte(text), "a.b a.[].b metadata.name", "a.b.c metadata.labels")
		f.Add([]byte(text), "a.[] [].b metadata", "[].[]")
		f.Add(spaced([]byte(text)), "metadata.managedFields.[] a", "a")
	}
	packer := NewPacker()
	f.Fuzz(func(t *testing.T, text []byte, viewed, kept string) { check(t, packer, text, viewed, kept) })
}

// check compares Parsers with apimachinery's decoder on one text. They must agree on the whole
// object, on what a Parser keeps, prunes and views, and on all of these with white space and after
// packing. Two cases that apimachinery decodes make no Object: null, and an identity of the wrong
// type.
func check(t *testing.T, packer *Packer, text []byte, viewed, kept string) {
	t.Helper()
	view, keep := splitPaths(viewed), splitPaths(kept)
	o, seen, err := parse(NewParser(nil, view), text)
	tree, fit := oracle(text)
	if fit != (err == nil) {
		t.Fatalf("%q: error %v, fit: %v", text, err, fit)
	}
	unfit := new(UnfitError)
	if err != nil {
		if json.Valid(text) != errors.As(err, &unfit) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%q: error %v, valid: %v", text, err, json.Valid(text))
		}
		if !json.Valid(text) {
			return
		}
	}
	value := bytes.TrimRight(text, " \t\r\n")
	pruning := NewParser(keep, view)
	for n := 0; n < len(value); n += 1 + len(value)/50 {
		if o, _, err := parse(pruning, value[:n]); o != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%q cut short: %v, error %v", value[:n], o, err)
		}
	}
	if err != nil {
		return
	}
	same := func(what string, want, got any) {
		t.Helper()
		if !equal(want, got) {
			t.Fatalf("%q: %s: %#v, want %#v", text, what, got, want)
		}
	}
	whole := any(tree)
	same("whole", whole, o.Decode(&everything))
	if json, err := compact(o.JSON()); err != nil || !bytes.Equal(json, o.JSON()) {
		t.Fatalf("%q is kept as %q: error %v", text, o.JSON(), err)
	}
	decoded, _ := oracle(o.JSON())
	same("what is kept", whole, any(decoded))
	same("identity", identityOf(tree), [4]string{o.Namespace(), o.Name(), o.UID(), o.ResourceVersion()})

	var want any
	if !view.IsEmpty() {
		want = cut(tree, view.List())
	}
	same("view", want, seen)
	same("decoded for the view", want, o.Decode(view))

	pruned, seenToo, err := parse(pruning, text)
	if err != nil {
		t.Fatalf("%q, keeping %v: %v", text, keep, err)
	}
	same("view beside what is kept", want, seenToo)
	with := Identity()
	with.Union(keep)
	same("kept", cut(tree, with.List()), pruned.Decode(&everything))
	same("pruned later", string(pruned.JSON()), string(prune(o, keep).JSON()))
	for _, path := range view.List() {
		with.Add(path...)
	}
	// a source with keep: needed keeps paths for its other users too
	same("view of what is kept for others too", want, prune(o, with).Decode(view))

	wide, seenWide, err := parse(NewParser(nil, view), spaced(text))
	if err != nil {
		t.Fatalf("%q with white space: %v", text, err)
	}
	same("with space", string(o.JSON()), string(wide.JSON()))
	same("view with space", want, seenWide)
	prunedWide, _, _ := parse(NewParser(keep, nil), spaced(text))
	same("kept with space", string(pruned.JSON()), string(prunedWide.JSON()))

	packer.Pack(wide)
	same("packed", string(o.JSON()), string(wide.JSON()))
	same("packed view", want, wide.Decode(view))
}

func compact(text []byte) ([]byte, error) {
	var out bytes.Buffer
	err := json.Compact(&out, text)
	return out.Bytes(), err
}

func identityOf(tree map[string]any) (id [4]string) {
	meta, _ := tree["metadata"].(map[string]any)
	for n, field := range identityFields {
		id[n], _ = meta[field].(string)
	}
	return id
}
