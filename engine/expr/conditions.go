package expr

import (
	"slices"
	"strings"
)

// Condition says of an object that the value at Path, a chain of keys, is a string and one of Values. These are sorted,
// each once; there is none where an expression contradicts itself.
type Condition struct {
	Path   []string
	Values []string
}

// Requires are conditions without which the program does not give true: whenever Bool is true, all of them hold of
// Env.Object. They need not be all that could be said, and say nothing of old. They are sorted by path, each path once.
// The caller must not change them.
//
// They come from a field compared with constants, by == or in, wherever that is joined to the rest by and, and from
// such comparisons of one field that are joined by or.
func (p *Program) Requires() []Condition { return p.requires }

// equals is what a == b requires.
func equals(a, b operand) []Condition {
	if a.constant {
		a, b = b, a
	}
	return oneOf(a, b.value)
}

// in is what a in b requires.
func in(a, b operand) []Condition {
	values, _ := b.value.([]any)
	return oneOf(a, values...)
}

// oneOf is what is required for a to be equal to one of some constants. They must be strings: of the values in an object, a
// string is equal to nothing else.
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

// both is what "a and b" requires: what either does, and of one field the values that suit both.
func both(a, b []Condition) []Condition {
	return merge(a, b, byPath, true, func(x, y Condition) Condition {
		return Condition{x.Path, merge(x.Values, y.Values, strings.Compare, false, first)}
	})
}

// either is what "a or b" requires: what both do, and of one field the values that suit one of them.
func either(a, b []Condition) []Condition {
	return merge(a, b, byPath, false, func(x, y Condition) Condition {
		return Condition{x.Path, merge(x.Values, y.Values, strings.Compare, true, first)}
	})
}

func byPath(x, y Condition) int { return slices.Compare(x.Path, y.Path) }

func first(x, _ string) string { return x }

// merge merges two sorted lists. What they have in common is joined; what one of them has alone is taken if all is.
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
