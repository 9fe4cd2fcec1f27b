package expr

import (
	"slices"
	"strings"

	"github.com/informd/informd/engine/object"
)

// shape tells where in the objects a value may come from, without evaluating. Whoever compiles a node does one of these
// with the shape of each operand: derives another from it, uses it, which says that everything in the value is looked at,
// or touches it, which says that no more is looked at than what kind of value it is and how many elements a list has.
// A value that is made, as a number or text, has the zero shape.
type shape struct {
	paths [][]string // the places that the value may be
	elem  *shape     // of what the elements may be, where the value is a list or a map that the expression makes
}

// Past these bounds a value is taken to be used, which is always right.
const (
	maxPlaces     = 16
	maxPathLength = 32
)

func place(path ...string) shape { return shape{paths: [][]string{path}} }

func made(elem shape) shape {
	if elem.isZero() {
		return shape{}
	}
	return shape{elem: &elem}
}

func (s shape) isZero() bool { return len(s.paths) == 0 && s.elem == nil }

func (s shape) size() int {
	n := len(s.paths)
	if s.elem != nil {
		n += 1 + s.elem.size()
	}
	return n
}

// reach collects what an expression reads.
type reach struct {
	paths   object.Paths
	touched [][]string
}

// member is the shape of what lies in s under a key, or under every key if key is object.Each.
func (r *reach) member(s shape, key string) shape {
	var out shape
	for _, path := range s.paths {
		if len(path) == maxPathLength {
			r.paths.Add(path...)
			continue
		}
		out.paths = append(out.paths, append(slices.Clip(path), key))
	}
	if s.elem != nil {
		out = r.union(out, *s.elem)
	}
	return out
}

// elem is the shape of the elements of a list.
func (r *reach) elem(s shape) shape { return r.member(s, object.Each) }

// union is the shape of what is either of two values.
func (r *reach) union(a, b shape) shape {
	out := shape{paths: slices.Clip(a.paths), elem: a.elem}
	for _, path := range b.paths {
		if !slices.ContainsFunc(out.paths, func(p []string) bool { return slices.Equal(p, path) }) {
			out.paths = append(out.paths, path)
		}
	}
	switch {
	case out.elem == nil:
		out.elem = b.elem
	case b.elem != nil && b.elem != out.elem:
		elem := r.union(*out.elem, *b.elem)
		out.elem = &elem
	}
	if out.size() > maxPlaces {
		r.use(out)
		return shape{}
	}
	return out
}

func (r *reach) use(s shape) {
	for _, path := range s.paths {
		r.paths.Add(path...)
	}
	if s.elem != nil {
		r.use(*s.elem)
	}
}

func (r *reach) touch(s shape) { r.touched = append(r.touched, s.paths...) }

// set is everything that is read. A touched place of which nothing else is read gets a path to a field that does not
// matter: it has the decoder keep the place.
func (r *reach) set() *object.Paths {
	const nothing = ""
	kept := make(map[string]bool) // every place that is on the way to what is read
	keep := func(path []string) {
		var key strings.Builder
		kept[""] = true
		for _, name := range path {
			key.WriteString(name)
			key.WriteByte(0)
			kept[key.String()] = true
		}
	}
	for _, path := range r.paths.List() {
		keep(path)
	}
	slices.SortStableFunc(r.touched, func(a, b []string) int { return len(b) - len(a) })
	for _, path := range r.touched {
		key := strings.Join(path, "\x00")
		if len(path) > 0 {
			key += "\x00"
		}
		if !kept[key] && !r.paths.Covers(path...) {
			keep(path)
			r.paths.Add(append(slices.Clip(path), nothing)...)
		}
	}
	return &r.paths
}
