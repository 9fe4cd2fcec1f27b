package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// reader reads the values of one document. Its methods report what is wrong with a value and return
// its zero, so that reading goes on and mistakes in one field hide none in another. All of them
// take a nil node, for an absent field, and do nothing.
type reader struct {
	*parser
	file     *file
	dir      string
	limit    int // of len(mistakes); beyond it, nothing more is reported
	reported map[*yaml.Node]bool
}

func (r *reader) full() bool { return len(r.mistakes) >= r.limit }

func (r *reader) offset(n *yaml.Node) int { return r.file.offset(n.Line, n.Column) }

// mistake reports a mistake at n, which must be there. It reports at most one per node.
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

// mapping has the fields of one mapping.
type mapping struct {
	reader *reader
	fields fields     // that there may be
	path   string     // of the mapping, with a dot behind it; "" at the top
	at     *yaml.Node // where to report a missing field; nil if that would say nothing new
	key    map[string]*yaml.Node
	value  map[string]*yaml.Node

	missing    map[string]bool // required fields that are reported
	hasUnknown bool            // a field that is reported
}

// mapping reads the fields of n, and reports those that are not known. at is where to report missing
// ones.
func (r *reader) mapping(n, at *yaml.Node, path string, known fields) mapping {
	f := mapping{
		reader: r, fields: known, at: at, key: map[string]*yaml.Node{}, value: map[string]*yaml.Node{},
		missing: map[string]bool{},
	}
	if path != "" {
		f.path = path + "."
	}
	if n == nil {
		f.at = nil
		return f
	}
	names := known.names()
	if n.Kind != yaml.MappingNode {
		what := path
		if what == "" {
			what = "a manifest"
		}
		r.mistake(n, "%s must be a mapping of %s, not %s",
			what, strings.Join(names, ", "), describe(n))
		f.at = nil
		return f
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		f.key[key.Value], f.value[key.Value] = key, value
		if slices.Contains(names, key.Value) {
			continue
		}
		hint := fmt.Sprintf("; the fields are %s", strings.Join(names, ", "))
		if how := cmp.Or(meantIn(names, key.Value), meant[key.Value]); how != "" {
			hint = "; " + how
		} else if s := r.suggest(key.Value, names); s != "" {
			hint = didYouMean(s)
			if f.key[s] == nil {
				f.key[s] = key // so that it is not reported as missing as well
			}
		}
		f.hasUnknown = true
		r.mistake(key, "unknown field %s%s", quote(f.path+key.Value), hint)
	}
	return f
}

// meant says how to write what people look for under these names.
var meant = map[string]string{
	"aggregate":     "group: {by: EXPRESSION, wait: 30s} makes one event of many changes",
	"args":          "the arguments follow the program in command: [PROGRAM, ARGUMENT]",
	"after":         "for: 5m waits until where has held that long",
	"condition":     "where is about an object, when about a change",
	"debounce":      "for: 30s waits until where has held that long",
	"batch":         "group: {by: EXPRESSION, wait: 30s} makes one event of many changes",
	"threshold":     counts,
	"cron":          "schedule: {cron: \"0 3 * * *\"} tells of all objects at moments of the clock",
	"every":         "cron has a cron expression such as \"0 * * * *\"; resync: 1h is an interval",
	"delay":         "for: 30s waits until where has held that long",
	"duration":      "for: 5m waits until where has held that long",
	"groupBy":       "group: {by: EXPRESSION, wait: 30s} makes one event of many changes",
	"groupWait":     "group: {by: EXPRESSION, wait: 30s} makes one event of many changes",
	"filter":        "where is about an object, when about a change",
	"fieldSelector": ofSource,
	"forEach":       "it stands in an action, beside its apply, create, patch, delete or event",
	"indexes":       ofSource,
	"kind":          "objects are named by their resource, such as v1/pods or apps/v1/deployments",
	"labelSelector": ofSource,
	"namespaces":    ofSource,
	"selector":      "objects are selected by labelSelector, fieldSelector and where",
	"status":        "a status is written by resource: GROUP/VERSION/RESOURCE/status",
	"subresource":   "a status is written by resource: GROUP/VERSION/RESOURCE/status",
	"times":         counts,
	"throttle":      "group: {every: 10m} leaves 10 minutes between two events of an object",
	"within":        counts,
	"url":           "builtin: webhook has url in its config, and a remote handler has address",
}

// meantIn is meant for names whose meaning depends on where they stand: beside which fields.
func meantIn(fields []string, name string) string {
	isIn := func(names ...string) bool { return slices.Contains(names, name) }
	switch has := func(field string) bool { return slices.Contains(fields, field) }; {
	case has("where") && isIn("namespace", "namespaces"):
		return `write where: object.metadata.namespace == "NAME", or give the Source its namespaces`
	case has("where") && isIn("match", "if", "on", "trigger"):
		return "where is about an object, when about a change"
	case has("object") && has("resource") && isIn("apiVersion", "kind"):
		return "it stands in object, or the whole object stands in place of resource and object"
	case has("object") && isIn("name", "namespace", "labels", "annotations", "ownerReferences"):
		return "it stands in object, below metadata"
	case has("object") && isIn("metadata", "data", "stringData", "spec", "status"):
		return "it stands in object"
	case has("reason") && has("warning") && name == "type":
		return "write warning: true for an Event of type Warning"
	case has("merge") && isIn("metadata", "spec", "status"):
		return "it stands in merge"
	case has("builtin") && slices.Contains(builtins, name):
		return "write builtin: " + name + ", and what it needs in config"
	case has("merge") && isIn("strategic", "strategicMerge", "patch", "data"):
		return "write merge with what is to change, or json with operations"
	case has("times") && isIn("every", "for", "window", "per", "period", "duration", "interval"):
		return "within: 1h is the length of the window"
	case has("times") && isIn("n", "min", "threshold", "count"):
		return "times: 3 lets every third change go on"
	case has("uid") && isIn("labelSelector", "fieldSelector", "selector"):
		return `an action is about one object: use forEach: lookup("SOURCE.INDEX", …) for many`
	}
	return ""
}

const counts = "count: {times: 3, within: 1h} lets every third change within an hour go on"

const ofSource = "it is a field of the Source"

// has reports whether the manifest has the field, whatever its value, or means to.
func (f mapping) has(name string) bool { return f.key[name] != nil }

// get returns the value of a field, or nil if it is absent or reported. It reports a missing one that
// the table requires.
func (f mapping) get(name string) *yaml.Node {
	if !f.fields.require(name) {
		return f.valueOf(name, leaveOut)
	}
	if !f.has(name) && f.at != nil && !f.missing[name] {
		f.missing[name] = true
		// several fields may be missing at one place
		missing := f.reader.file.mistake(f.reader.offset(f.at), f.path+name+" is missing")
		f.reader.mistakes = append(f.reader.mistakes, missing)
	}
	return f.valueOf(name, "")
}

// leaveOut advises what to do with an optional field that has no value.
const leaveOut = ": give it one or leave it out"

// meant is get for an optional field, also for a misspelt one, which is reported already. It spares
// authors the mistakes that follow from one that is missing.
func (f mapping) meant(name string) *yaml.Node {
	if key := f.key[name]; key != nil {
		name = key.Value
	}
	return f.valueOf(name, leaveOut)
}

// valueOf returns the value of a field, or nil if it is absent or reported.
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

// expression reads a field that is an expression.
func (f mapping) expression(name string) Text {
	return f.reader.expression(f.get(name), f.path+name)
}

// str reads a field that is a non-empty string.
func (f mapping) str(name string) string { return f.reader.str(f.get(name), f.path+name) }

// boolean reads a field that is true or false.
func (f mapping) boolean(name string) bool { return f.reader.boolean(f.get(name), f.path+name) }

// whole reads a field that is a whole number, within the bounds of its form.
func (f mapping) whole(name string) int {
	b := f.fields.named(name).whole
	return f.reader.integer(f.get(name), f.path+name, b.low, b.high, b.missing)
}

// span reads a field that is a duration, within the bounds of its form.
func (f mapping) span(name string) time.Duration {
	b := f.fields.named(name).span
	return f.reader.duration(f.get(name), f.path+name, b.zero, b.low, b.high, b.missing)
}

// choice reads a field that is one of the strings of its form, and returns its index, or 0.
func (f mapping) choice(name string) int {
	return f.reader.choice(f.get(name), f.path+name, f.fields.named(name).choices)
}

// str reads a non-empty string.
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

// maybeEmpty reads a string that may be empty.
func (r *reader) maybeEmpty(n *yaml.Node, what string) string {
	if n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value == "" {
		return ""
	}
	return r.str(n, what)
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

// list returns the elements of a non-empty list. what names its elements, as "namespaces".
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

// set reads a list of distinct strings. check returns what is wrong with one, or "".
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

// integer reads an integer from low to high. It returns missing if n is nil or mistaken.
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

// isCondition reports whether a field has a condition.
func isCondition(field string) bool {
	return slices.Contains([]string{"where", "when", "if"}, field[strings.LastIndexByte(field, '.')+1:])
}

// expression reads an expression. Of scalars that are not strings it takes the text: 3, true.
func (r *reader) expression(n *yaml.Node, what string) Text {
	switch {
	case n == nil || r.reported[n]:
	case n.Kind == yaml.SequenceNode && isCondition(what):
		r.mistake(n, "%s must be one expression, not a list: join the conditions with and", what)
	case n.Kind != yaml.ScalarNode:
		r.mistake(n, "%s must be an expression, not %s: put it in quotes", what, describe(n))
	case strings.TrimSpace(n.Value) == "" || n.ShortTag() == "!!null":
		r.mistake(n, "%s is empty: write an expression or leave it out", what)
	default:
		return r.text(n)
	}
	return Text{}
}
