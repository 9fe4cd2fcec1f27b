package plan

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/engine/object"
)

// Selector is a compiled Selection: it decides about objects as an API server does.
type Selector struct {
	object.Selection
	labels labels.Selector
	fields fields.Selector
}

// NewSelector compiles a Selection.
func NewSelector(s object.Selection) (*Selector, error) {
	byLabel, err := labels.Parse(s.LabelSelector)
	byField, failed := fields.ParseSelector(s.FieldSelector)
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	return &Selector{s, byLabel, byField}, nil
}

// Has reports whether the selection has an object of its resource.
func (s *Selector) Has(o *object.Object) bool {
	return (s.Namespace == "" || s.Namespace == o.Namespace()) &&
		(s.labels.Empty() || s.labels.Matches(labels.Set(o.Labels()))) &&
		(s.fields.Empty() || s.fields.Matches(byPath{o}))
}

// WhyNot says why the selection does not have an object, or returns "" if it has it.
func (s *Selector) WhyNot(o *object.Object) string {
	if s.Namespace != "" && s.Namespace != o.Namespace() {
		return fmt.Sprintf("it selects the namespace %s alone", s.Namespace)
	}
	var not []string
	requirements, _ := s.labels.Requirements()
	for _, r := range requirements {
		if !r.Matches(labels.Set(o.Labels())) {
			not = append(not, "its labels do not satisfy "+r.String())
		}
	}
	for _, r := range s.fields.Requirements() {
		one := fields.OneTermEqualSelector(r.Field, r.Value)
		if r.Operator == "!=" {
			one = fields.OneTermNotEqualSelector(r.Field, r.Value)
		}
		if !one.Matches(byPath{o}) {
			not = append(not, "its fields do not satisfy "+one.String())
		}
	}
	return strings.Join(not, ", and ")
}

// byPath finds the fields of a field selector in the object itself. API servers know a few fields
// of each resource, which all have the names of their paths.
type byPath struct{ *object.Object }

// Has implements fields.Fields.
func (o byPath) Has(field string) bool { return o.value(field) != nil }

// Get implements fields.Fields.
func (o byPath) Get(field string) string {
	switch v := o.value(field).(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

func (o byPath) value(field string) any {
	path := strings.Split(field, ".")
	paths := new(object.Paths)
	paths.Add(path...)
	value := o.Decode(paths)
	for _, name := range path {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	return value
}
