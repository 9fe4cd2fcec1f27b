package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	types "github.com/informd/informd/engine/schema"
	"github.com/informd/informd/plugins/handler/nearest"
)

// Misfit is something in a manifest that is certainly in vain: the schemas of a cluster rule it out,
// or no change makes it true. The expression can be evaluated all the same: a field that no object
// has is nil.
type Misfit struct {
	Rule   string // empty: in a manifest of Source, or in an object of it in a test
	Source string
	config.Mistake
}

// Schemas say what the objects of resources are.
type Schemas interface {
	// Of returns the Type of a resource's objects. ok is false if there is no schema of it.
	Of(schema.GroupVersionResource) (t types.Type, ok bool)
	// HasStatus reports whether a resource has the subresource status. known is false if that is not
	// known.
	HasStatus(schema.GroupVersionResource) (has, known bool)
	// Resources returns all resources of a group and version, or nil if they are not all known.
	Resources(schema.GroupVersion) []string
}

// Misfits checks every expression, every template of an action, and every object of a test against
// schemas, and every condition against the events of its rule. It reports what Compile does not, and
// takes any Config that Compile takes.
func Misfits(c *config.Config, schemas Schemas) []Misfit {
	m := &fitting{
		schemas: schemas, sources: make(map[string]expr.Typed), indexes: make(map[string][]string),
	}
	for _, s := range c.Sources {
		if _, ok := m.sources[s.Name]; ok {
			continue
		}
		m.sources[s.Name] = m.objectsOf(s.Resource)
		m.indexes[s.Name] = nil
		for _, index := range s.Indexes {
			m.indexes[s.Name] = append(m.indexes[s.Name], index.Name)
		}
	}
	for _, s := range c.Sources {
		m.at = Misfit{Source: s.Name}
		m.resource(s.Resource, s.ResourceAt)
		m.fieldSelector(s)
		for _, index := range s.Indexes {
			m.check(index.Expr, expr.Typing{Object: m.objectsOf(s.Resource)})
			m.quotedPath(index.Expr)
		}
		m.metrics(s.Metrics, expr.Typing{Object: m.objectsOf(s.Resource)})
	}
	granted := make(map[string]bool)
	for _, r := range c.Rules {
		source, _ := c.Source(r.Source)
		m.at = Misfit{Rule: r.Name, Source: r.Source}
		m.rule(r, source)
		if h, ok := c.Handler(r.Handler); ok && !granted[h.Name] { // the first rule tells of it
			granted[h.Name] = true
			m.grants(h)
		}
	}
	m.isTest = true
	for _, t := range c.Tests {
		m.steps(t.Steps)
	}
	return m.found
}

// Unknown returns the resources of a configuration that have no schema, sorted. Nothing is checked of
// their fields.
func Unknown(c *config.Config, schemas Schemas) (resources []string) {
	add := func(resource schema.GroupVersionResource) {
		if _, ok := schemas.Of(resource); !ok && resource != (schema.GroupVersionResource{}) {
			resources = append(resources, object.ResourceName(resource))
		}
	}
	for _, s := range c.Sources {
		add(s.Resource)
	}
	for _, r := range c.Rules {
		for _, a := range r.Actions {
			add(a.Resource)
		}
	}
	slices.Sort(resources)
	return slices.Compact(resources)
}

// fitting checks one configuration.
type fitting struct {
	schemas Schemas
	sources map[string]expr.Typed // the objects of each source
	indexes map[string][]string   // the names of each source's indexes
	at      Misfit                // what is being checked
	found   []Misfit
	isTest  bool // what is checked is an object of a test, not a template
}

func (m *fitting) objectsOf(resource schema.GroupVersionResource) expr.Typed {
	t, ok := m.schemas.Of(resource)
	if !ok {
		return expr.Typed{}
	}
	return expr.ObjectOf(object.ResourceName(resource), t)
}

// resource reports a resource that is probably the misspelled name of another one.
func (m *fitting) resource(resource schema.GroupVersionResource, at config.Text) {
	names := m.schemas.Resources(resource.GroupVersion())
	if len(names) == 0 || slices.Contains(names, resource.Resource) {
		return
	}
	names = slices.Sorted(slices.Values(names))
	if hint := nearest.Name(resource.Resource, names); hint != "" {
		other := resource
		other.Resource = hint
		m.add(at.Mistake(0, fmt.Sprintf("there is no resource %s; did you mean %s?",
			object.ResourceName(resource), object.ResourceName(other))))
	}
}

// grants checks what a handler may write.
func (m *fitting) grants(h config.Handler) {
	for _, g := range h.Write {
		m.resource(g.Resource, g.At)
		if has, known := m.schemas.HasStatus(g.Resource); known && !has && g.Subresource != "" {
			m.add(g.At.Mistake(0, noStatus(g.Resource)))
		}
	}
}

// quoted matches a text in an expression that is a field of an object.
var quoted = regexp.MustCompile(
	`^\s*["'](?:object)?\.?((?:metadata|spec|status|data)(?:\.\w+)+)["']\s*$`)

// quotedPath reports an index that has all objects under the name of a field. Another constant may
// be meant: it finds all objects at once.
func (m *fitting) quotedPath(index config.Text) {
	if at := quoted.FindStringSubmatch(index.String()); at != nil {
		m.add(index.Mistake(0, "the index has every object under this text; for the value of the field "+
			"write object."+at[1]+" without quotes"))
	}
}

// oddSelectors are fields of selectors that are no fields of objects, by resource.
var oddSelectors = map[string]string{"jobs": "status.successful", "pods": "spec.host"}

// fieldSelector reports a selector by a field that objects cannot have. API servers know fewer fields
// than objects have, and which they know is not in schemas.
func (m *fitting) fieldSelector(s config.Source) {
	selector, err := fields.ParseSelector(s.FieldSelector)
	if err != nil {
		return // reported by config.Parse
	}
	for _, wanted := range selector.Requirements() {
		if wanted.Field == oddSelectors[s.Resource.Resource] || strings.Contains(wanted.Field, "[") {
			continue
		}
		at := m.objectsOf(s.Resource)
		offset := max(strings.Index(s.FieldsAt.String(), wanted.Field), 0)
		fault := ""
		for name := range strings.SplitSeq(wanted.Field, ".") {
			if at, fault = at.Field(name); fault != "" {
				break
			}
			offset += len(name) + len(".")
		}
		if fault == "" && !at.Lacks(types.String) {
			offset = max(strings.LastIndex(s.FieldsAt.String(), wanted.Value), 0)
			fault = at.Takes(expr.Typed{Type: types.Constant(wanted.Value)})
		}
		if fault != "" {
			m.add(s.FieldsAt.Mistake(offset, fault))
		}
	}
}

func (m *fitting) rule(r config.Rule, source config.Source) {
	as := expr.Typing{
		Object: m.sources[r.Source], Sources: m.sources, Events: r.Events,
		Options: expr.Options{
			Scope: expr.When, Indexes: m.indexes[r.Source], Sources: m.indexes, NoSource: r.Source == "",
		},
	}
	condition := as
	condition.IsCondition = true
	m.check(r.Where, condition)
	m.check(r.When, condition)
	m.check(r.Due, as)
	if r.Count != nil {
		m.check(r.Count.By, as)
		m.check(r.Count.At, as)
	}
	if r.Group != nil {
		m.check(r.Group.By, as)
	}
	m.fits(r.Payload, as, expr.Typed{})
	for _, a := range r.Attach {
		m.check(a.Expr, as)
	}
	m.metrics(r.Metrics, as)
	if r.Group != nil {
		as.Given = map[string]expr.Typed{rule.Items: itemsOf}
		as.Options.Given = map[string][]string{rule.Items: nil}
	}
	for _, a := range r.Actions {
		as := as
		if r.Prune && a.Prunes() { // deleted objects have what was applied for them pruned
			as.Events = slices.DeleteFunc(slices.Clone(r.Events), func(event string) bool {
				return event == delta.Deleted.String()
			})
		}
		m.action(a, source, as)
	}
}

// steps checks the objects of a test.
func (m *fitting) steps(steps []config.Step) {
	for _, step := range steps {
		m.at = Misfit{Source: step.Source}
		m.fits(step.Body, expr.Typing{}, m.sources[step.Source])
		m.steps(step.Meanwhile)
	}
}

// metrics checks metrics. A field that is a string is no number, also if it holds a time.
func (m *fitting) metrics(all []config.Metric, as expr.Typing) {
	for _, metric := range all {
		value := m.check(metric.Value, as)
		if value.Lacks(types.Number | types.Bool) {
			m.add(metric.Value.Mistake(0, fmt.Sprintf("%s is %s, and the value of a metric is a "+
				"number%s", value, value.Kind(), hintForNumber(value))))
		}
		for _, label := range metric.Labels {
			if text := m.check(label.Expr, as); text.Lacks(types.String | types.Number | types.Bool) {
				m.add(label.Expr.Mistake(0, fmt.Sprintf("%s is %s, and a label is text",
					text, text.Kind())))
			}
		}
	}
}

func hintForNumber(value expr.Typed) string {
	switch {
	case value.IsOnly(types.String):
		return ": write time(…), quantity(…) or float(…) around it"
	case value.IsOnly(types.List | types.Map):
		return ": len(…) is how many it has"
	}
	return ""
}

// itemsOf is what items stands for.
var itemsOf = expr.Typed{Type: types.ListOf(types.Struct(map[string]types.Type{
	"event": types.Of(types.String), "namespace": types.Of(types.String),
	"name": types.Of(types.String), "uid": types.Of(types.String), "payload": {},
}))}

// check checks an expression and returns what it gives.
func (m *fitting) check(text config.Text, as expr.Typing) expr.Typed {
	if text.IsZero() {
		return expr.Typed{}
	}
	gives, mistakes := expr.Check(text.String(), as)
	m.report(text, mistakes)
	return gives
}

func (m *fitting) report(text config.Text, mistakes []*expr.Error) {
	for _, mistake := range mistakes {
		m.add(text.Mistake(mistake.Offset, mistake.Message))
	}
}

func (m *fitting) add(mistake config.Mistake) {
	found := m.at
	found.Mistake = mistake
	m.found = append(m.found, found)
}

func (m *fitting) action(a config.Action, source config.Source, as expr.Typing) {
	list := m.check(a.ForEach, as)
	if !a.ForEach.IsZero() {
		if list.Lacks(types.List) {
			m.add(a.ForEach.Mistake(0, list.String()+" is "+list.Kind()+", and forEach needs a list"))
		}
		as.Item = list.Element()
		as.Options.Item = new(expr.Program) // item has a meaning; what it is does not matter
	}
	condition := as
	condition.IsCondition = true
	m.check(a.If, condition)
	for _, v := range []*config.Value{
		a.Namespace, a.Name, a.UID, a.ResourceVersion, a.Reason, a.Message,
	} {
		m.fits(v, as, expr.Typed{})
		if v == a.Message { // which may say anything: informd check mentions it
			continue
		}
		if mistake, found := GoTemplate(v); found {
			m.add(mistake)
		}
	}
	m.resource(a.Resource, a.ResourceAt)
	target := m.target(a, source)
	m.fits(a.Object, as, target)
	m.status(a, source)
	if a.Patch != nil && a.JSONPatch {
		m.operations(a.Patch, as, target)
	} else {
		m.fits(a.Patch, as, target)
	}
}

// ofGo matches a field of an object as templates of Go have it.
var ofGo = regexp.MustCompile(`\{\{-?\s*\.((?:metadata|spec|status|data)(?:\.\w+)+)`)

// GoTemplate finds a template of Go in a text that nobody but informd evaluates. v may be nil.
func GoTemplate(v *config.Value) (is config.Mistake, found bool) {
	if v == nil || v.Kind != config.ValueTemplate {
		return is, false
	}
	text := v.Text.String()
	at := ofGo.FindStringSubmatchIndex(text)
	if at == nil {
		return is, false
	}
	return v.Text.Mistake(at[0], fmt.Sprintf("{{ }} is the syntax of Go and Helm, and stays as it "+
		"is here: write ${object.%s}", text[at[2]:at[3]])), true
}

// target returns the objects that an action is about. If its resource is mistaken, they may be
// anything.
func (m *fitting) target(a config.Action, source config.Source) expr.Typed {
	makesObject := a.Verb == config.Apply || a.Verb == config.Create
	switch {
	case a.Resource != (schema.GroupVersionResource{}):
		return m.objectsOf(a.Resource)
	case makesObject || !a.ResourceAt.IsZero():
		return expr.Typed{}
	}
	return m.objectsOf(source.Resource)
}
