package plan

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/rule"
)

// requireStrings marks where the API server takes nothing but strings: in labels, annotations, and
// the data of ConfigMaps and Secrets. There it reports constants that are none. It also reports
// paths that stand as keys. v and out are an object, or a merge patch of one.
func (b *builder) requireStrings(
	v *config.Value, out *rule.Template, of schema.GroupVersionResource) {
	if v == nil || v.Kind != config.ValueMapping {
		return
	}
	for i, m := range v.Members {
		member := out.Members[i].Value
		switch name := m.Name.String(); {
		case dotted.MatchString(name):
			first, rest, _ := strings.Cut(name, ".")
			next, _, _ := strings.Cut(rest, ".")
			b.mistake(m.Name, "a key is one field, and no path: nest %s: {%s: …} instead", first, next)
		case name == "metadata":
			b.requireMetadata(m.Value, member)
		case dataOf(of, name) != "":
			b.requireMap(m, member, dataOf(of, name))
		case hasTemplates[of.Group]:
			b.requireInTemplates(m.Value, member)
		}
	}
}

// dotted matches a path that somebody wrote as the key of an object.
var dotted = regexp.MustCompile(`^(metadata|spec|status|data)\.`)

// dataOf returns how to call a value in the field of a ConfigMap or a Secret, or "" if the field is
// another one.
func dataOf(resource schema.GroupVersionResource, field string) string {
	if resource.Group != "" {
		return ""
	}
	switch resource.Resource + "." + field {
	case "configmaps.data", "configmaps.binaryData":
		return "a value in the " + field + " of a ConfigMap"
	case "secrets.data", "secrets.stringData":
		return "a value in the " + field + " of a Secret"
	}
	return ""
}

// hasTemplates has the groups in which a field template always holds an object with metadata.
var hasTemplates = map[string]bool{"": true, "apps": true, "batch": true}

// requireInTemplates is requireMetadata for every template of a Pod or a Job within v.
func (b *builder) requireInTemplates(v *config.Value, out *rule.Template) {
	if v.Kind != config.ValueMapping {
		return
	}
	for i, m := range v.Members {
		member := out.Members[i].Value
		isTemplate := m.Name.String() == "template" || m.Name.String() == "jobTemplate"
		if isTemplate && m.Value.Kind == config.ValueMapping {
			for j, in := range m.Value.Members {
				if in.Name.String() == "metadata" {
					b.requireMetadata(in.Value, member.Members[j].Value)
				}
			}
		}
		b.requireInTemplates(m.Value, member)
	}
}

// inMetadata has the fields of metadata that hold strings, with how to call one.
var inMetadata = map[string]string{"labels": "a label", "annotations": "an annotation"}

func (b *builder) requireMetadata(v *config.Value, out *rule.Template) {
	if v.Kind != config.ValueMapping {
		return
	}
	for i, m := range v.Members {
		if what := inMetadata[m.Name.String()]; what != "" {
			b.requireMap(m, out.Members[i].Value, what)
		}
	}
}

// requireMap is requireString for all members of a mapping.
func (b *builder) requireMap(m config.Member, out *rule.Template, what string) {
	switch m.Value.Kind {
	case config.ValueMapping:
		for i, in := range m.Value.Members {
			b.requireString(in, out.Members[i].Value, what)
		}
	case config.ValueTemplate:
		out.Must = rule.BeStrings
	}
}

// requireString reports a member whose value is a constant and no string, and a label or an
// annotation that the API server never takes. null removes the member.
func (b *builder) requireString(m config.Member, out *rule.Template, what string) {
	isLabel := what == inMetadata["labels"]
	name := m.Name.String()
	isAnnotation := what == inMetadata["annotations"]
	if (isLabel || isAnnotation) && !strings.Contains(name, "${") {
		qualified := name
		if isAnnotation {
			qualified = strings.ToLower(name) // as the API server checks it
		}
		if len(validation.IsQualifiedName(qualified)) > 0 {
			b.mistake(m.Name, "%s cannot be named %q: "+
				"write letters, digits, -, _ and ., after a DNS name and / if you like", what, name)
			return
		}
	}
	switch m.Value.Kind {
	case config.ValueConstant:
		text := string(m.Value.JSON)
		is := "a number"
		switch text {
		case "null":
			return
		case "true", "false":
			is = "true or false"
		}
		b.mistake(m.Value.Text, "%s is a string, not %s: write %q", what, is, m.Value.Text)
	case config.ValueMapping:
		b.mistake(m.Name, "%s is a string, not a mapping", what)
	case config.ValueList:
		b.mistake(m.Name, "%s is a string, not a list", what)
	case config.ValueTemplate:
		out.Must = rule.BeString
		text := m.Value.Text.String()
		isConstant := out.Program == nil && !strings.Contains(text, "${")
		if isLabel && strings.HasSuffix(text, "\n") {
			b.mistake(m.Value.Text, "%s cannot end with a line break, as a block below | does: write |-",
				what)
			return
		}
		if isLabel && isConstant && len(validation.IsValidLabelValue(text)) > 0 {
			b.mistake(m.Value.Text, "%s cannot be %q: at most 63 letters, digits, -, _ and ., "+
				"with a letter or digit at both ends", what, text)
		}
	}
}

// requireStringsInJSON is requireStrings for a JSON patch.
func (b *builder) requireStringsInJSON(
	v *config.Value, out *rule.Template, of schema.GroupVersionResource) {
	for i, operation := range v.Items {
		path, at := "", -1
		for j, m := range operation.Members {
			switch {
			case m.Name.String() == "path" && m.Value.Kind == config.ValueTemplate:
				path = m.Value.Text.String()
			case m.Name.String() == "value":
				at = j
			}
		}
		if at < 0 {
			continue
		}
		require := b.requireMap
		what, rest := "", strings.Split(strings.TrimPrefix(path, "/"), "/")
		switch {
		case rest[0] == "metadata" && len(rest) > 1:
			what, rest = inMetadata[rest[1]], rest[2:]
		default:
			what, rest = dataOf(of, rest[0]), rest[1:]
		}
		if len(rest) == 1 {
			require = b.requireString
		}
		if what != "" && len(rest) <= 1 {
			require(operation.Members[at], out.Items[i].Members[at].Value, what)
		}
	}
}
