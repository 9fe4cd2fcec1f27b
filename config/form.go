package config

import (
	"slices"
	"time"
)

// field is a field of a mapping. Manifests are read by the tables of fields, and Schema tells editors
// of them.
type field struct {
	name       string
	about      string // what it is for, as an editor shows it
	isRequired bool
	form
}

// fields are those of one mapping, in the order in which a mistake lists them.
type fields []field

func (f fields) names() []string {
	names := make([]string, len(f))
	for i := range f {
		names[i] = f[i].name
	}
	return names
}

// named returns the field of that name, which must be there.
func (f fields) named(name string) field {
	return f[slices.IndexFunc(f, func(one field) bool { return one.name == name })]
}

// require reports whether the field of that name is there and required.
func (f fields) require(name string) bool {
	return slices.ContainsFunc(f, func(one field) bool { return one.name == name && one.isRequired })
}

// only returns the fields of these names, in their order.
func (f fields) only(names ...string) fields {
	out := make(fields, len(names))
	for i, name := range names {
		out[i] = f.named(name)
	}
	return out
}

// form is what a value may be. What it cannot say, such as which fields exclude each other, whoever
// reads the value checks.
type form struct {
	types   []string // as JSON calls them; nil is anything but null
	choices []string
	pattern string // of strings: a regular expression of JSON Schema
	example string // YAML

	whole *wholeRange
	span  *spanRange

	fields fields // of a mapping
	// orManifest says that the object itself may stand there, in place of a mapping of fields.
	orManifest bool
	// mayBeEmpty says that a string without a pattern, or a list, may be empty.
	mayBeEmpty bool
	// elements are those of a list. With isSet, each may stand there once. There are at most most, if
	// that is not 0.
	elements *form
	isSet    bool
	most     int
	members  *form  // the values of a mapping whose names are free
	names    string // the pattern of these names
	either   []form // the value is one of these
}

// wholeRange bounds a whole number. missing is what it is without the field.
type wholeRange struct{ low, high, missing int }

// spanRange bounds a duration. With zero it may also be 0, which needs no unit. missing is what it is
// without the field.
type spanRange struct {
	zero               bool
	low, high, missing time.Duration
}

// Forms that many fields have.
var (
	aText       = form{types: []string{"string"}}
	aBoolean    = form{types: []string{"boolean"}}
	aMapping    = form{types: []string{"object"}}
	anything    = form{}
	expression  = form{types: []string{"string", "number", "boolean"}}
	aDNSLabel   = form{types: []string{"string"}, pattern: `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`}
	aResource   = form{types: []string{"string"}, pattern: `^[^/]+/[^/]+(/[^/]+)?$`, example: "apps/v1/deployments"}
	aTarget     = form{types: []string{"string"}, pattern: `^[^/]+/[^/]+(/[^/]+)?(/status)?$`, example: "v1/pods"}
	aDescriptor = form{types: []string{"object", "string"}} // a mapping, or an expression that gives one
)

func oneOfThese(choices []string) form { return form{types: []string{"string"}, choices: choices} }

func whole(low, high, missing int) form {
	return form{types: []string{"integer"}, whole: &wholeRange{low, high, missing}}
}

// span is a duration. zero says that it may be 0.
func span(zero bool, low, high, missing time.Duration) form {
	s := form{types: []string{"string"}, span: &spanRange{zero, low, high, missing}, example: "10m"}
	s.pattern = `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	if zero {
		s.types = append(s.types, "number")
		s.pattern = `^[-+]?0(\.0*)?$|` + s.pattern
	}
	return s
}

func listOf(elements form) form { return form{types: []string{"array"}, elements: &elements} }

func setOf(elements form) form {
	s := listOf(elements)
	s.isSet = true
	return s
}

func atMost(n int, s form) form {
	s.most = n
	return s
}

func maybeEmpty(s form) form {
	s.mayBeEmpty = true
	return s
}

func mappingOf(f fields) form { return form{types: []string{"object"}, fields: f} }

func orManifest(s form) form {
	s.orManifest = true
	return s
}

func membersOf(names string, values form) form {
	return form{types: []string{"object"}, members: &values, names: names}
}

func such(example string, s form) form {
	s.example = example
	return s
}

func either(forms ...form) form { return form{either: forms} }

// required returns f as a field that must be there.
func (f field) required() field {
	f.isRequired = true
	return f
}

func is(name string, s form, about string) field {
	return field{name: name, form: s, about: about}
}
