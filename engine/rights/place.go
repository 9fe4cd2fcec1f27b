package rights

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/internal/printable"
)

// place is where the objects are that an action is about.
type place struct {
	namespaces []string // nil: all, or the resource has none
	names      []string // nil: any
	// wide says why namespaces is nil although each action has one namespace; "": it is not.
	wide string
	// own means that the object is the one that changed, and no other.
	own bool
}

// maxNames bounds how many names and how many namespaces a place has. Beyond it, a Role for each of
// them is no help to anybody.
const maxNames = 64

// ownPlace returns where the objects are of which a rule hears.
func ownPlace(r *plan.Rule) place {
	p := place{own: true}
	for i, in := range r.Source.Informers {
		namespace := exactly(in.FieldSelector, "metadata.namespace")
		name := exactly(in.FieldSelector, "metadata.name")
		if in.Namespace != "" {
			namespace = in.Namespace
		}
		if i == 0 && name != "" { // the informers of a source have one selector
			p.names = []string{name}
		}
		if namespace != "" {
			p.namespaces = append(p.namespaces, namespace)
		}
	}
	if r.Where != nil {
		for _, c := range r.Where.Requires() {
			switch strings.Join(c.Path, ".") {
			case "metadata.namespace":
				p.namespaces = narrowed(p.namespaces, c.Values)
			case "metadata.name":
				p.names = narrowed(p.names, c.Values)
			}
		}
	}
	return p
}

// exactly returns the value that a field selector demands of a field, or "".
func exactly(selector, field string) string {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return ""
	}
	value, _ := parsed.RequiresExactMatch(field)
	return value
}

// narrowed returns the values that are in both lists. Without a first list, all of the second are.
func narrowed(values, to []string) []string {
	both := to
	if values != nil {
		both = slices.DeleteFunc(slices.Clone(values), func(v string) bool {
			return !slices.Contains(to, v)
		})
	}
	if len(both) == 0 || len(both) > maxNames { // a where that contradicts itself
		return values
	}
	return both
}

// placeOf returns where the objects of an action are. own is the place of the rule's own objects.
func placeOf(t *rule.ActionTemplate, r *plan.Rule, own place) place {
	if t.Object != nil {
		return placeOfObject(t, r, own)
	}
	p := place{own: !t.Elsewhere}
	switch {
	case t.Namespace != nil:
		var isOwn bool
		p.namespaces, p.wide, isOwn = values(t.Namespace, "namespace", own.namespaces)
		p.own = p.own && isOwn
	case !t.Elsewhere:
		p.namespaces = own.namespaces
	}
	switch {
	case t.Name != nil:
		var isOwn bool
		p.names, _, isOwn = values(t.Name, "name", own.names)
		p.own = p.own && isOwn
	case !t.Elsewhere:
		p.names = own.names
	}
	return p
}

// placeOfObject returns where an apply or a create has its object.
func placeOfObject(t *rule.ActionTemplate, r *plan.Rule, own place) place {
	metadata := member(t.Object, "metadata")
	if metadata == nil || metadata.Program != nil {
		what := metadata
		if what == nil {
			what = t.Object
		}
		return place{wide: "its namespace is within " + quoted(what) + ", known only at run time"}
	}
	p := place{}
	isOwnNamespace, isOwnName := true, false
	if namespace := member(metadata, "namespace"); namespace != nil {
		p.namespaces, p.wide, isOwnNamespace = values(namespace, "namespace", own.namespaces)
	}
	if name := member(metadata, "name"); name != nil {
		p.names, _, isOwnName = values(name, "name", own.names)
	}
	p.own = isOwnNamespace && isOwnName && t.Resource == r.Source.Resource && !r.Source.IsRule()
	return p
}

func member(t *rule.Template, name string) *rule.Template {
	for _, m := range t.Members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// values returns what a template of a namespace or a name can give; nil for anything. own is what
// the same field of the rule's own objects can be. isOwn means that the template gives that field.
func values(t *rule.Template, field string, own []string) (can []string, wide string, isOwn bool) {
	if t.Program == nil {
		var s string
		if json.Unmarshal(t.JSON, &s) != nil || s == "" {
			return nil, "", false
		}
		return []string{s}, "", false
	}
	if m := ownField.FindStringSubmatch(t.Program.Text()); m != nil && m[1] == field {
		return own, "", true
	}
	return nil, fmt.Sprintf("its %s is %s, known only at run time", field, quoted(t)), false
}

// ownField matches a template of the namespace or the name of the object that changed.
var ownField = regexp.MustCompile(`^\$\{\s*object\.metadata\.(namespace|name)\s*\}$`)

// maxQuoted bounds the characters of a template that a reason quotes.
const maxQuoted = 60

func quoted(t *rule.Template) string {
	if t.Program == nil {
		return "a template"
	}
	text := printable.Line(strings.Join(strings.Fields(t.Program.Text()), " "), 4*maxQuoted)
	if runes := []rune(text); len(runes) > maxQuoted {
		text = string(runes[:maxQuoted-1]) + "…"
	}
	return text
}
