package object

import (
	"slices"
	"strings"
)

// Each, as an element of a path, stands for every element of a list or every value of a map.
const Each = "[]"

// Paths is a set of paths into an object. A path leads to a whole subtree: with "spec" in the set, "spec", "replicas"
// is covered. The zero Paths is empty. Reading is safe for concurrent use, changing is not.
type Paths struct {
	whole  bool              // everything from here on
	fields map[string]*Paths // by name
	each   *Paths            // list elements and map values
}

// Add adds the subtree that path leads to. No path at all is the whole object.
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
	c := p.fields[name]
	if c == nil {
		if p.fields == nil {
			p.fields = make(map[string]*Paths)
		}
		c = new(Paths)
		p.fields[name] = c
	}
	return c
}

// Union adds all of q, which it does not keep.
func (p *Paths) Union(q *Paths) {
	for _, path := range q.List() {
		p.Add(path...)
	}
}

// Covers tells whether the subtree at path is in the set.
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
	return path[0] != Each && p.fields[path[0]].Covers(path[1:]...)
}

// IsEmpty tells whether no path is in the set.
func (p *Paths) IsEmpty() bool { return p == nil || !p.whole && p.each == nil && len(p.fields) == 0 }

// List is the set's paths, sorted.
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
	for name, c := range p.fields {
		c.walk(append(prefix, name), visit)
	}
	p.each.walk(append(prefix, Each), visit)
}

// String lists the paths for people: "metadata.name spec.containers[].image".
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

// below is the set as seen from below a list's element.
func (p *Paths) below() *Paths {
	if p == nil || p.whole {
		return p
	}
	return p.each
}

// at is the set as seen from below a map's key.
func (p *Paths) at(name string) *Paths {
	if p.whole {
		return p
	}
	f := p.fields[name]
	switch {
	case f == nil:
		return p.each
	case p.each == nil || f.whole:
		return f
	case p.each.whole:
		return p.each
	}
	both := new(Paths)
	both.Union(f)
	both.Union(p.each)
	return both
}
