package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/schema"
)

// Typed is what is known of a value before any evaluation. The zero Typed may be anything.
type Typed struct {
	Type schema.Type
	// of and path say where objects have the value, for messages: of is a resource, such as v1/pods,
	// and empty if the value is made by the expression.
	of   string
	path []string
	root schema.Type // of the whole object
	// each is an element of a list that the expression makes; nil: path says where it is.
	each *Typed
	// branches are what the parts of x ?? y, or of x ? y : z, give; nil: it has no such parts.
	branches []Typed
}

// ObjectOf returns what is known of the objects of a resource, which messages call by name.
func ObjectOf(name string, t schema.Type) Typed { return Typed{Type: t, of: name, root: t} }

// IsKnown reports whether anything is known of the value.
func (t Typed) IsKnown() bool { return t.Type.Kinds() != 0 }

// listOf returns a list that the expression makes.
func listOf(element Typed) Typed {
	return Typed{Type: schema.ListOf(element.Type), each: &element}
}

// within returns a part of t that has a Type.
func (t Typed) within(key string, part schema.Type) Typed {
	if t.of == "" {
		return Typed{Type: part}
	}
	return Typed{Type: part, of: t.of, path: append(slices.Clip(t.path), key), root: t.root}
}

// Element returns an element of a list.
func (t Typed) Element() Typed {
	if t.each != nil {
		return *t.each
	}
	return t.within(object.Each, t.Type.Element())
}

// oneOfTwo returns a value that is one of two.
func oneOfTwo(a, b Typed) Typed {
	out := Typed{Type: schema.Union(a.Type, b.Type)}
	if a.of == b.of && slices.Equal(a.path, b.path) {
		out.of, out.path, out.root = a.of, a.path, a.root
	}
	return out
}

// Lacks reports whether the value certainly has none of some kinds.
func (t Typed) Lacks(kinds schema.Kind) bool {
	known := t.Type.Kinds()
	return known != 0 && known&kinds == 0
}

// String names the value in a message, as "spec.replicas of apps/v1/deployments".
func (t Typed) String() string {
	switch {
	case t.of == "":
		return "this"
	case len(t.path) == 0:
		return "an object of " + t.of
	}
	return object.PathText(t.path) + " of " + t.of
}

// Kind says what the value is, as "a number".
func (t Typed) Kind() string {
	var names []string
	for _, k := range kindNames {
		if t.Type.Kinds()&k.kind != 0 {
			names = append(names, k.name)
		}
	}
	return strings.Join(names, " or ")
}

var kindNames = []struct {
	kind schema.Kind
	name string
}{
	{schema.String, "a string"}, {schema.Number, "a number"}, {schema.Bool, "true or false"},
	{schema.List, "a list"}, {schema.Map, "a map"},
}

// IsOnly reports whether the value certainly has one of some kinds.
func (t Typed) IsOnly(kinds schema.Kind) bool { return t.IsKnown() && t.Type.Kinds()&^kinds == 0 }

// Takes returns what is wrong with giving t a value, or "". Null may be given anywhere.
func (t Typed) Takes(given Typed) string {
	for _, branch := range given.branches {
		if fault := t.Takes(branch); fault != "" {
			return fault
		}
	}
	if !given.IsKnown() || !t.IsKnown() {
		return ""
	}
	if t.Lacks(given.Type.Kinds()) {
		return fmt.Sprintf("%s is %s, not %s%s", t, t.Kind(), given.Kind(), t.hintForQuotes(given))
	}
	allowed := t.Type.Enum()
	for _, text := range given.Type.Enum() {
		if given.of == "" && allowed != nil && text != "" && !slices.Contains(allowed, text) {
			return notInEnum(t, text, allowed)
		}
	}
	return ""
}

// hintForQuotes returns what follows the message about a string where t takes none.
func (t Typed) hintForQuotes(given Typed) string {
	text := given.Type.Enum()
	if given.of != "" || len(text) != 1 {
		return ""
	}
	isBool := text[0] == "true" || text[0] == "false"
	_, err := strconv.ParseFloat(text[0], 64)
	if isBool && !t.Lacks(schema.Bool) || err == nil && !t.Lacks(schema.Number) {
		return ": leave the quotes out"
	}
	return ""
}

// isConditionStatus reports whether the value is the status of a condition: "True", "False" or
// "Unknown".
func (t Typed) isConditionStatus() bool {
	last := len(t.path) - 1
	return last > 0 && t.path[last] == "status" && slices.Contains(t.path[:last], "conditions")
}

// Field returns a field of a map, and what is wrong if there can be none of that name, or "".
func (t Typed) Field(name string) (field Typed, fault string) {
	in, ok := t.Type.Field(name)
	if ok {
		return t.within(name, in), ""
	}
	switch {
	case !t.Lacks(schema.Map):
		fault = fmt.Sprintf("there is no field %s%s", clip(name), t.hintForField(name))
		if t.of != "" {
			fault = fmt.Sprintf("there is no field %s in %s%s",
				object.PathText(append(slices.Clip(t.path), clip(name))), t.of, t.hintForField(name))
		}
	case !t.Lacks(schema.List) && plainName.MatchString(name):
		fault = fmt.Sprintf("%s is a list, which has no field %s; ask each element, with "+
			"any(LIST, .%s == …), or take it of each, with map(LIST, .%s)", t, name, name, name)
	default:
		fault = fmt.Sprintf("%s is %s, which has no field %s", t, t.Kind(), clip(name))
		if n := len(t.path); n > 1 && (t.path[n-2] == "labels" || t.path[n-2] == "annotations") {
			fault += fmt.Sprintf("; a name with . in it needs brackets, such as "+
				`%s["app.kubernetes.io/name"]`, t.path[n-2])
		}
	}
	return Typed{}, fault
}

// hintForField returns what follows the message about a field that a map cannot have.
func (t Typed) hintForField(name string) string {
	fields := slices.DeleteFunc(slices.Clone(t.Type.Fields()), isLeftOut)
	if hint := suggest(name, slices.Clone(fields)); hint != "" {
		return hint
	}
	isShort := len(fields) <= maxFieldsListed
	if at := findField(t.root, name); at != nil && !(isShort && slices.Contains(t.path, object.Each)) {
		return fmt.Sprintf("; did you mean %s?", object.PathText(at))
	}
	if hint := onlyWith(name, fields); hint != "" {
		return fmt.Sprintf("; did you mean %s?", hint)
	}
	if !isShort {
		return ""
	}
	return suggestOrList(name, fields)
}

// managedFields is a field of metadata in all schemas that informd leaves out of all objects.
const managedFields = "managedFields"

func isLeftOut(field string) bool { return field == managedFields }

// onlyWith returns the only one of some names that begins with another one, or "".
func onlyWith(beginning string, names []string) (found string) {
	const short = 3 // begins too many names by chance
	if len(beginning) < short {
		return ""
	}
	for _, name := range names {
		if len(name) < len(beginning) || !strings.EqualFold(name[:len(beginning)], beginning) {
			continue
		}
		if found != "" {
			return ""
		}
		found = name
	}
	return found
}

// maxFieldsListed is how many fields a map has at most if a message lists them.
const maxFieldsListed = 12

// These bound findField.
const (
	maxFieldDepth = 5
	maxFieldsSeen = 2000
)

// findField returns the path of the first field of that name that is nearest to the root, or nil.
func findField(root schema.Type, name string) []string {
	type level struct {
		at   schema.Type
		path []string
	}
	seen := 0
	for next := []level{{at: root}}; len(next) > 0; next = next[1:] {
		if len(next[0].path) >= maxFieldDepth {
			break
		}
		for _, field := range next[0].at.Fields() {
			if isLeftOut(field) {
				continue
			}
			if seen++; seen > maxFieldsSeen {
				return nil
			}
			path := append(slices.Clip(next[0].path), field)
			if field == name && len(path) > 1 {
				return path
			}
			in, _ := next[0].at.Field(field)
			if in.Kinds() == schema.List {
				in, path = in.Element(), append(path, object.Each)
			}
			next = append(next, level{in, path})
		}
	}
	return nil
}
