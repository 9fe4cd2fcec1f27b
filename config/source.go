package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
	fieldsel "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Bounds of every resync but 0.
const (
	minResync = time.Second
	maxResync = year
)

func (r *reader) source(n, at *yaml.Node, name Text) {
	spec := r.mapping(n, at, "spec", sourceFields)
	r.config.Sources = append(r.config.Sources, Source{
		Name:          name.String(),
		At:            name,
		Resource:      r.resource(spec.get("resource")),
		ResourceAt:    r.text(spec.get("resource")),
		Namespaces:    r.namespaces(spec.get("namespaces")),
		LabelSelector: r.labelSelector(spec.get("labelSelector")),
		FieldSelector: r.fieldSelector(spec.get("fieldSelector")),
		FieldsAt:      r.text(spec.get("fieldSelector")),
		Resync:        spec.span("resync"),
		Keep:          Keep(spec.choice("keep")),
		Indexes:       r.indexes(spec.get("indexes")),
		Metrics:       r.sourceMetrics(spec.get("metrics")),
	})
}

func (r *reader) namespaces(n *yaml.Node) []string {
	return r.set(n, "spec.namespaces", "names",
		func(s string) string { return notLabel("namespace", s) })
}

func (r *reader) labelSelector(n *yaml.Node) string {
	if n != nil && n.Kind == yaml.MappingNode {
		r.mistake(n, "spec.labelSelector must be a string, not a mapping: write %s", asSelector(n))
		return ""
	}
	s := r.maybeEmpty(n, "spec.labelSelector")
	selector, err := labels.Parse(s)
	if err != nil {
		r.mistake(n, "spec.labelSelector does not parse: %s", clip(err.Error(), maxSnippet))
		return ""
	}
	return canonical(selector)
}

// canonical writes equivalent selectors alike: in a fixed order, each requirement once, and with
// one value as tier=web, whether the author wrote tier==web or tier in (web).
func canonical(selector labels.Selector) string {
	requirements, _ := selector.Requirements() // what Parse makes is selectable
	texts := make([]string, 0, len(requirements))
	for _, requirement := range requirements {
		if values := requirement.ValuesUnsorted(); len(values) == 1 {
			operator := requirement.Operator()
			switch operator {
			case selection.In, selection.DoubleEquals:
				operator = selection.Equals
			case selection.NotIn:
				operator = selection.NotEquals
			}
			simple, err := labels.NewRequirement(requirement.Key(), operator, values)
			if err == nil {
				requirement = *simple
			}
		}
		texts = append(texts, requirement.String())
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ",")
}

func (r *reader) fieldSelector(n *yaml.Node) string {
	s := r.maybeEmpty(n, "spec.fieldSelector")
	selector, err := fieldsel.ParseSelector(s)
	if err != nil {
		r.mistake(n, "spec.fieldSelector does not parse: %s", clip(err.Error(), maxSnippet))
		return ""
	}
	return selector.String()
}

var indexName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)

func (r *reader) indexes(n *yaml.Node) []Index {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.mistake(n, "spec.indexes must be a mapping of names to expressions, not %s", describe(n))
		return nil
	}
	var out []Index
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !indexName.MatchString(key.Value) {
			r.mistake(key, "index name %s must begin with a letter, followed by "+
				"letters, digits, _ and -, and have at most %d characters",
				quote(key.Value), maxName)
		}
		index := Index{Name: key.Value, Expr: r.expression(value, "index "+quote(key.Value))}
		out = append(out, index)
	}
	slices.SortFunc(out, func(a, b Index) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// asSelector returns the text of a label selector that is written as a mapping of labels, or as
// matchLabels.
func asSelector(n *yaml.Node) string {
	if matching := child(n, "matchLabels"); matching != nil && len(n.Content) == 2 {
		n = matching
	}
	var text []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i+1].Kind != yaml.ScalarNode {
			return "it as kubectl does, such as app=web"
		}
		text = append(text, n.Content[i].Value+"="+n.Content[i+1].Value)
	}
	if _, err := labels.Parse(strings.Join(text, ",")); err != nil || len(text) == 0 {
		return "it as kubectl does, such as app=web"
	}
	return clip(strings.Join(text, ","), maxSnippet)
}
