package expr

import (
	"slices"
	"strings"
)

// Condition says that an object has a string at Path, a chain of keys, and that it is one of
// Values. Values are sorted and distinct. They are empty if the expression contradicts itself.
type Condition struct {
	Path   []string
	Values []string
}

// Requires returns conditions that the program needs to give true: whenever Bool is true, all of
// them hold of Env.Object. It may miss some, and it finds none about old.
// The conditions are sorted by path, and paths are distinct. The caller must not change them.
//
// A condition comes from comparing a field with constants, by == or in, if and joins the comparison
// to the rest. Comparisons of one field that or joins count as one.
func (p *Program) Requires() []Condition { return p.requires }

// decide returns the value of an exact program: whether all that it requires holds of the tree. It
// takes a fraction of an evaluation. sure is false if a field cannot be reached, which only an
// evaluation can tell from a condition that does not hold.
func (p *Program) decide(tree any) (ok, sure bool) {
	ok = true
	for i := range p.requires {
		v := tree
		for _, key := range p.requires[i].Path {
			if v == nil {
				break
			}
			m, isMap := v.(map[string]any)
			if !isMap {
				return false, false
			}
			v = m[key]
		}
		s, isText := v.(string)
		ok = ok && isText && contains(p.requires[i].Values, s)
	}
	return ok, true
}

// contains reports whether sorted values have s.
func contains(values []string, s string) bool {
	if len(values) < manyStrings {
		return slices.Contains(values, s)
	}
	_, ok := slices.BinarySearch(values, s)
	return ok
}

// equals returns what a == b requires.
func equals(a, b operand) []Condition {
	if a.constant {
		a, b = b, a
	}
	return oneOf(a, b.value)
}

// in returns what a in b requires.
func in(a, b operand) []Condition {
	values, _ := b.value.([]any)
	return oneOf(a, values...)
}

// oneOf returns what it requires that a equals one of the constants. They must be strings: in an
// object, only a string equals a string.
func oneOf(a operand, constants ...any) []Condition {
	if a.field == nil || len(constants) == 0 {
		return nil
	}
	values := make([]string, len(constants))
	for i, v := range constants {
		s, ok := v.(string)
		if !ok {
			return nil
		}
		values[i] = s
	}
	slices.Sort(values)
	return []Condition{{a.field, slices.Compact(values)}}
}

// both returns what "a and b" requires: all that either requires. For a field that both mention,
// the values that suit both.
func both(a, b []Condition) []Condition {
	return merge(a, b, byPath, true, func(x, y Condition) Condition {
		return Condition{x.Path, merge(x.Values, y.Values, strings.Compare, false, first)}
	})
}

// either returns what "a or b" requires: only what both require, with the values that suit one of
// them.
func either(a, b []Condition) []Condition {
	return merge(a, b, byPath, false, func(x, y Condition) Condition {
		return Condition{x.Path, merge(x.Values, y.Values, strings.Compare, true, first)}
	})
}

func byPath(x, y Condition) int { return slices.Compare(x.Path, y.Path) }

func first(x, _ string) string { return x }

// merge merges two sorted lists. It joins what they share. If all is set, it also takes what only
// one of them has.
func merge[T any](a, b []T, compare func(x, y T) int, all bool, join func(x, y T) T) []T {
	var out []T
	if all {
		out = make([]T, 0, max(len(a), len(b)))
	}
	for len(a) > 0 && len(b) > 0 {
		c := compare(a[0], b[0])
		switch {
		case c == 0:
			out = append(out, join(a[0], b[0]))
		case all && c < 0:
			out = append(out, a[0])
		case all:
			out = append(out, b[0])
		}
		if c <= 0 {
			a = a[1:]
		}
		if c >= 0 {
			b = b[1:]
		}
	}
	if all {
		out = append(append(out, a...), b...)
	}
	return out
}
