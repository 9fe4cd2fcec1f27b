package config

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// reader reads the values of one document. Its methods report what is wrong with a value and return its zero, so that
// the reading goes on and the mistakes in one field hide none in another. All of them take a nil node, for a field that
// is absent, and do nothing.
type reader struct {
	*parser
	file     *file
	dir      string
	limit    int // of len(mistakes): past it nothing more is reported
	reported map[*yaml.Node]bool
}

func (r *reader) full() bool { return len(r.mistakes) >= r.limit }

func (r *reader) offset(n *yaml.Node) int { return r.file.offset(n.Line, n.Column) }

// mistake reports a mistake at n. Of each node one is enough.
func (r *reader) mistake(n *yaml.Node, format string, args ...any) {
	if r.reported[n] || r.full() {
		return
	}
	r.reported[n] = true
	r.mistakes = append(r.mistakes, r.file.mistake(r.offset(n), fmt.Sprintf(format, args...)))
}

// text returns the scalar n as a Text.
func (r *reader) text(n *yaml.Node) Text {
	if n == nil || n.Kind != yaml.ScalarNode {
		return Text{}
	}
	return Text{value: n.Value, file: r.file, start: r.offset(n), style: n.Style}
}

// mapping is the fields of one mapping.
type mapping struct {
	reader *reader
	path   string     // of the mapping, with a dot behind it; "" at the top
	at     *yaml.Node // where to report a missing field; nil if that would say nothing new
	key    map[string]*yaml.Node
	value  map[string]*yaml.Node
}

// mapping reads the fields of n and reports those that are not among known. at is where missing ones are reported.
func (r *reader) mapping(n, at *yaml.Node, path string, known ...string) mapping {
	f := mapping{reader: r, at: at, key: map[string]*yaml.Node{}, value: map[string]*yaml.Node{}}
	if path != "" {
		f.path = path + "."
	}
	if n == nil {
		f.at = nil
		return f
	}
	if n.Kind != yaml.MappingNode {
		what := path
		if what == "" {
			what = "a manifest"
		}
		r.mistake(n, "%s must be a mapping of %s, not %s", what, strings.Join(known, ", "), describe(n))
		f.at = nil
		return f
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		f.key[key.Value], f.value[key.Value] = key, value
		if slices.Contains(known, key.Value) {
			continue
		}
		hint := fmt.Sprintf("; the fields are %s", strings.Join(known, ", "))
		if s := r.suggest(key.Value, known); s != "" {
			hint = didYouMean(s)
			if f.key[s] == nil {
				f.key[s] = key // so that it is not reported as missing too
			}
		}
		r.mistake(key, "unknown field %s%s", quote(f.path+key.Value), hint)
	}
	return f
}

// has tells whether the field is there, whatever its value, or was meant to be.
func (f mapping) has(name string) bool { return f.key[name] != nil }

// get returns the value of a field, or nil if it is absent or has been reported.
func (f mapping) get(name string) *yaml.Node { return f.valueOf(name, ": give it one or leave it out") }

func (f mapping) valueOf(name, advice string) *yaml.Node {
	n := f.value[name]
	switch {
	case n == nil || f.reader.reported[n]:
		return nil
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		f.reader.mistake(f.key[name], "%s has no value%s", f.path+name, advice)
		return nil
	}
	return n
}

// need is get for a field that must be there.
func (f mapping) need(name string) *yaml.Node {
	if !f.has(name) && f.at != nil {
		// Several fields may be missing at one place.
		f.reader.mistakes = append(f.reader.mistakes, f.reader.file.mistake(f.reader.offset(f.at), f.path+name+" is missing"))
	}
	return f.valueOf(name, "")
}

// str reads a string that is not empty.
func (r *reader) str(n *yaml.Node, what string) string {
	switch {
	case n == nil || r.reported[n]:
		return ""
	case n.Kind != yaml.ScalarNode:
		r.mistake(n, "%s must be a string, not %s", what, describe(n))
	case n.ShortTag() != "!!str":
		r.mistake(n, "%s must be a string, not %s: put it in quotes", what, describe(n))
	case strings.TrimSpace(n.Value) == "":
		r.mistake(n, "%s is empty", what)
	case strings.ContainsRune(n.Value, 0):
		r.mistake(n, "%s must not contain a NUL character", what)
	default:
		return n.Value
	}
	return ""
}

// choice reads one of the given strings and returns its index, or 0.
func (r *reader) choice(n *yaml.Node, what string, of []string) int {
	s := r.str(n, what)
	if s == "" {
		return 0
	}
	i := slices.Index(of, s)
	if i < 0 {
		hint := ""
		if c := r.suggest(s, of); c != "" {
			hint = didYouMean(c)
		}
		r.mistake(n, "%s must be %s, not %s%s", what, oneOf(of), quote(s), hint)
		return 0
	}
	return i
}

// oneOf returns "a, b or c".
func oneOf(of []string) string {
	last := len(of) - 1
	return strings.Join(of[:last], ", ") + " or " + of[last]
}

// list returns the elements of a list that is not empty; what says what its elements are, as "namespaces".
func (r *reader) list(n *yaml.Node, name, what string) []*yaml.Node {
	switch {
	case n == nil || r.reported[n]:
		return nil
	case n.Kind == yaml.ScalarNode:
		r.mistake(n, "%s is a list of %s: write [%s]", name, what, clip(n.Value, maxQuoted))
	case n.Kind != yaml.SequenceNode:
		r.mistake(n, "%s must be a list of %s, not %s", name, what, describe(n))
	case len(n.Content) == 0:
		r.mistake(n, "%s is empty: give it an element or leave it out", name)
	default:
		return n.Content
	}
	return nil
}

// set reads a list of different strings, each of which check, if it finds fault with one, tells why.
func (r *reader) set(n *yaml.Node, name, what string, check func(string) string) []string {
	var out []string
	seen := map[string]bool{}
	for _, item := range r.list(n, name, what) {
		s := r.str(item, "an element of "+name)
		switch {
		case s == "":
		case seen[s]:
			r.mistake(item, "%s is in %s twice", quote(s), name)
		default:
			seen[s] = true
			if fault := check(s); fault != "" {
				r.mistake(item, "%s", fault)
				continue
			}
			out = append(out, s)
		}
	}
	return out
}

// boolean reads true or false.
func (r *reader) boolean(n *yaml.Node, what string) bool {
	switch {
	case n == nil || r.reported[n]:
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool":
		is := describe(n)
		if n.Kind == yaml.ScalarNode {
			is = quote(n.Value)
		}
		r.mistake(n, "%s must be true or false, not %s", what, is)
	default:
		return strings.EqualFold(n.Value, "true") // the parser knows no other
	}
	return false
}

// integer reads a whole number within bounds.
func (r *reader) integer(n *yaml.Node, what string, low, high, missing int) int {
	if n == nil || r.reported[n] {
		return missing
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
		r.mistake(n, "%s must be a whole number, not %s", what, describe(n))
		return missing
	}
	var v int64
	if err := n.Decode(&v); err != nil || v < int64(low) || v > int64(high) {
		r.mistake(n, "%s must be from %d to %d, not %s", what, low, high, clip(n.Value, maxQuoted))
		return missing
	}
	return int(v)
}

// expression reads an expression. Scalars that are not strings are taken as their text: 3, true.
func (r *reader) expression(n *yaml.Node, what string) Text {
	switch {
	case n == nil || r.reported[n]:
	case n.Kind != yaml.ScalarNode:
		r.mistake(n, "%s must be an expression, not %s: put it in quotes", what, describe(n))
	case strings.TrimSpace(n.Value) == "" || n.ShortTag() == "!!null":
		r.mistake(n, "%s is empty: write an expression or leave it out", what)
	default:
		return r.text(n)
	}
	return Text{}
}
