package schema

import (
	"maps"
	"slices"
)

// Kind is a set of kinds of JSON values. The empty set stands for any kind.
type Kind uint8

// These are the kinds.
const (
	String Kind = 1 << iota
	Number      // integers and others
	Bool
	List
	Map
)

// Type is what a value may be: one of several alternatives. The zero Type may be anything. A null
// may stand for a value of any Type. A Type is immutable and safe for concurrent use.
type Type struct{ any []*node }

// node is one alternative. It may be part of itself, at any depth. The zero node may be anything.
type node struct {
	kinds  Kind
	fields map[string]*node
	closed bool     // a map has no fields but fields
	rest   *node    // a map's values under all other keys; nil: anything
	items  *node    // a list's elements; nil: anything
	enum   []string // of a string, sorted; nil: any
	either []*node  // instead of all other fields: it is one of these
}

// Of returns the Type of values of some kinds, about which nothing else is known.
func Of(kinds Kind) Type { return Type{[]*node{{kinds: kinds}}} }

// ListOf returns the Type of lists.
func ListOf(element Type) Type { return Type{[]*node{{kinds: List, items: element.node()}}} }

// MapOf returns the Type of maps with any keys.
func MapOf(value Type) Type { return Type{[]*node{{kinds: Map, rest: value.node()}}} }

// Struct returns the Type of maps that have these fields and no others.
func Struct(fields map[string]Type) Type {
	n := &node{kinds: Map, closed: true, fields: make(map[string]*node, len(fields))}
	for name, t := range fields {
		n.fields[name] = t.node()
	}
	return Type{[]*node{n}}
}

// Constant returns the Type of one string.
func Constant(text string) Type { return Type{[]*node{{kinds: String, enum: []string{text}}}} }

func (t Type) node() *node {
	switch len(t.any) {
	case 0:
		return new(node)
	case 1:
		return t.any[0]
	}
	return &node{either: t.any}
}

// maxAlternatives bounds the alternatives of a Type. With more it may be anything.
const maxAlternatives = 64

// Union returns the Type of a value that is one of two. If one of them may be anything, so may the
// union.
func Union(a, b Type) Type {
	if len(a.any) == 0 || len(b.any) == 0 {
		return Type{}
	}
	out := slices.Clip(a.any)
	for _, n := range b.any {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	if len(out) > maxAlternatives {
		return Type{}
	}
	return Type{out}
}

// alternatives returns the nodes that the type may be, none of which has alternatives itself, or nil
// if it may be anything.
func (t Type) alternatives() []*node {
	var out []*node
	seen := make(map[*node]bool)
	var add func(list []*node) bool
	add = func(list []*node) bool {
		for _, n := range list {
			switch {
			case seen[n]:
			case len(n.either) > 0:
				seen[n] = true
				if !add(n.either) {
					return false
				}
			case n.kinds == 0 || len(seen) > maxAlternatives:
				return false
			default:
				seen[n] = true
				out = append(out, n)
			}
		}
		return true
	}
	if !add(t.any) {
		return nil
	}
	return out
}

// Kinds returns the kinds that a value may have, or 0 if it may have any.
func (t Type) Kinds() (kinds Kind) {
	for _, n := range t.alternatives() {
		kinds |= n.kinds
	}
	return kinds
}

// Field returns the Type of a map's field. ok is false if there can be none of that name, because no
// alternative is a map, or every map is closed and lacks it.
func (t Type) Field(name string) (field Type, ok bool) {
	all := t.alternatives()
	if all == nil {
		return Type{}, true
	}
	for _, n := range all {
		if n.kinds&Map == 0 {
			continue
		}
		in := n.fields[name]
		if in == nil && n.closed {
			continue
		}
		if in == nil {
			in = n.rest
		}
		if in == nil {
			return Type{}, true
		}
		found := Type{[]*node{in}}
		if ok {
			found = Union(field, found)
		}
		field, ok = found, true
		if len(field.any) == 0 {
			return Type{}, true
		}
	}
	return field, ok
}

// Element returns the Type of a list's elements. It may be anything if no alternative is a list.
func (t Type) Element() Type { return t.within(List, func(n *node) *node { return n.items }) }

// Value returns the Type of a map's values under keys that nobody knows. It may be anything if the
// map has fields of its own.
func (t Type) Value() Type {
	return t.within(Map, func(n *node) *node {
		if len(n.fields) > 0 {
			return nil
		}
		return n.rest
	})
}

func (t Type) within(kind Kind, get func(n *node) *node) (out Type) {
	found := false
	for _, n := range t.alternatives() {
		if n.kinds&kind == 0 {
			continue
		}
		in := get(n)
		if in == nil {
			return Type{}
		}
		next := Type{[]*node{in}}
		if found {
			next = Union(out, next)
		}
		out, found = next, true
	}
	return out
}

// Fields returns the names of a map's fields that are known, sorted.
func (t Type) Fields() []string {
	names := make(map[string]bool)
	for _, n := range t.alternatives() {
		for name := range n.fields {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Enum returns the strings that a value can be, sorted, or nil if it may be any other value.
func (t Type) Enum() []string {
	var out []string
	for _, n := range t.alternatives() {
		if n.kinds != String || n.enum == nil {
			return nil
		}
		out = append(out, n.enum...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
