package object

import (
	"slices"
	"strings"
)

// Each, as an element of a path, stands for every element of a list or every value of a map.
const Each = "[]"

// Paths is a set of paths into an object. A path leads to a whole subtree: with "spec" in the set,
// "spec", "replicas" is covered. The zero Paths is empty. Any number of goroutines may read it
// while none changes it.
type Paths struct {
	whole  bool    // everything from here on
	fields []field // sorted by name
	each   *Paths  // list elements and map values
}

type field struct {
	name  string
	below *Paths
}

// Add adds the subtree that path leads to. An empty path is the whole object.
func (p *Paths) Add(path ...string) {
	for _, name := range path {
		if p.whole {
			return
		}
		p = p.child(name)
	}
	*p = Paths{whole: true}
}

func (p *Paths) child(name string) *Paths {
	if name == Each {
		if p.each == nil {
			p.each = new(Paths)
		}
		return p.each
	}
	n, found := p.search(name)
	if !found {
		p.fields = slices.Insert(p.fields, n, field{name, new(Paths)})
	}
	return p.fields[n].below
}

func (p *Paths) search(name string) (n int, found bool) {
	return slices.BinarySearchFunc(p.fields, name, func(f field, name string) int {
		return strings.Compare(f.name, name)
	})
}

// field returns the field with that name, or nil. It runs for each key of each object. Most sets
// have a few fields of different lengths.
func (p *Paths) field(name []byte) *field {
	if len(p.fields) > 16 {
		if n, found := p.search(string(name)); found {
			return &p.fields[n]
		}
		return nil
	}
	for n := range p.fields {
		if f := &p.fields[n]; f.name == string(name) {
			return f
		}
	}
	return nil
}

// Union adds all paths of q. It does not keep q.
func (p *Paths) Union(q *Paths) {
	for _, path := range q.List() {
		p.Add(path...)
	}
}

// Covers reports whether the subtree at path is in the set.
func (p *Paths) Covers(path ...string) bool {
	switch {
	case p == nil:
		return false
	case p.whole:
		return true
	case len(path) == 0:
		return false
	}
	if p.each.Covers(path[1:]...) {
		return true
	}
	f := p.field([]byte(path[0]))
	return path[0] != Each && f != nil && f.below.Covers(path[1:]...)
}

// Beyond returns the paths of p that q does not cover.
func (p *Paths) Beyond(q *Paths) [][]string {
	return slices.DeleteFunc(p.List(), func(path []string) bool { return q.Covers(path...) })
}

// IsEmpty reports whether the set has no path.
func (p *Paths) IsEmpty() bool {
	return p == nil || !p.whole && p.each == nil && len(p.fields) == 0
}

// List returns the set's paths, sorted.
func (p *Paths) List() [][]string {
	var out [][]string
	p.walk(nil, func(path []string) { out = append(out, slices.Clone(path)) })
	slices.SortFunc(out, slices.Compare)
	return out
}

func (p *Paths) walk(prefix []string, visit func([]string)) {
	switch {
	case p == nil:
		return
	case p.whole:
		visit(prefix)
		return
	}
	for _, f := range p.fields {
		f.below.walk(append(prefix, f.name), visit)
	}
	p.each.walk(append(prefix, Each), visit)
}

// String returns the paths for people: "metadata.name spec.containers[].image".
func (p *Paths) String() string {
	var out []string
	for _, path := range p.List() {
		s := strings.ReplaceAll(strings.Join(path, "."), "."+Each, Each)
		if s == "" {
			s = "."
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// eachItem returns the set as seen from below a list.
func (p *Paths) eachItem() *Paths {
	if p == nil || p.whole {
		return p
	}
	return p.each
}

// at returns the set as seen from below a map's key. It also returns the key as a string, if it has
// one.
func (p *Paths) at(key []byte) (below *Paths, name string) {
	if p == nil || p.whole {
		return p, ""
	}
	f := p.field(key)
	switch {
	case f == nil:
		return p.each, ""
	case p.each == nil || f.below.whole:
		return f.below, f.name
	case p.each.whole:
		return p.each, f.name
	}
	both := new(Paths)
	both.Union(f.below)
	both.Union(p.each)
	return both, f.name
}
