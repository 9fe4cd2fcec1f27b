package expr

import (
	"slices"
	"strings"

	"github.com/informd/informd/engine/object"
)

// shape says where in the objects a value may come from. Whoever compiles a node does one of three
// things with the shape of each operand. It derives another shape from it. It uses the shape: the
// expression reads everything in the value. Or it touches the shape: the expression reads only the
// value's kind, and how many elements a list has. A new value, as a number or a text, has the zero
// shape.
type shape struct {
	places []spot // places where the value may be
	elem   *shape // of the elements, if the expression makes a list or a map
	keyed  bool   // it may be a map that the expression makes
}

// spot is a place in the objects of one source.
type spot struct {
	source string // a source that lookup searches; "" is the rule's own
	path   []string
}

// Beyond these bounds a value counts as used, which is always right.
const (
	maxPlaces     = 16
	maxPathLength = 32
)

// objectsOf returns the shape of the objects of a source.
func objectsOf(source string) shape { return shape{places: []spot{{source: source}}} }

func made(elem shape) shape {
	if elem.isZero() {
		return shape{}
	}
	return shape{elem: &elem}
}

// madeMap is made for a map.
func madeMap(elem shape) shape {
	s := made(elem)
	s.keyed = s.elem != nil
	return s
}

func (s shape) isZero() bool { return len(s.places) == 0 && s.elem == nil }

func (s shape) size() int {
	n := len(s.places)
	if s.elem != nil {
		n += 1 + s.elem.size()
	}
	return n
}

// reach collects what an expression reads.
type reach struct {
	sources map[string]*reading
}

// reading is what an expression reads of the objects of one source.
type reading struct {
	paths   object.Paths
	touched [][]string
}

// of returns what the expression reads of a source's objects.
func (r *reach) of(source string) *reading {
	if r.sources == nil {
		r.sources = make(map[string]*reading)
	}
	if r.sources[source] == nil {
		r.sources[source] = new(reading)
	}
	return r.sources[source]
}

// member returns the shape of the value in s under a key, or under every key if key is object.Each.
func (r *reach) member(s shape, key string) shape {
	var out shape
	for _, at := range s.places {
		if len(at.path) == maxPathLength {
			r.of(at.source).paths.Add(at.path...)
			continue
		}
		out.places = append(out.places, spot{at.source, append(slices.Clip(at.path), key)})
	}
	if s.elem != nil {
		out = r.union(out, *s.elem)
	}
	return out
}

// elem returns the shape of a list's elements.
func (r *reach) elem(s shape) shape { return r.member(s, object.Each) }

// union returns the shape of a value that is one of two.
func (r *reach) union(a, b shape) shape {
	out := shape{places: slices.Clip(a.places), elem: a.elem, keyed: a.keyed || b.keyed}
	for _, at := range b.places {
		same := func(s spot) bool { return s.source == at.source && slices.Equal(s.path, at.path) }
		if !slices.ContainsFunc(out.places, same) {
			out.places = append(out.places, at)
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
	for _, at := range s.places {
		r.of(at.source).paths.Add(at.path...)
	}
	if s.elem != nil {
		r.use(*s.elem)
	}
}

func (r *reach) touch(s shape) {
	for _, at := range s.places {
		from := r.of(at.source)
		from.touched = append(from.touched, at.path)
	}
}

// set returns everything that the expression reads of a source's objects. A place that it only
// touches gets a path to a field that does not matter, so that the decoder keeps the place.
func (r *reading) set() *object.Paths {
	const nothing = ""
	kept := make(map[string]bool) // every place on the way to what the expression reads
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
