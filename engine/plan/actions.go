package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/rule"
)

// actions compiles what a rule does itself. o are the options of its other expressions.
func (b *builder) actions(out *Rule, r config.Rule, o expr.Options) {
	out.Actions = &rule.Actions{Prune: r.Prune, Deleted: !r.AllEvents}
	for i, a := range r.Actions {
		t := b.action(a, out.Source.Resource, o)
		t.Label = fmt.Sprintf("actions[%d].%s", i, a.Verb)
		out.Actions.Each = append(out.Actions.Each, t)
		if r.Prune && a.Verb == config.Apply && a.Subresource == "" && !slices.Contains(out.Prune, a.Resource) {
			out.Prune = append(out.Prune, a.Resource)
		}
	}
	slices.SortFunc(out.Prune, func(a, b schema.GroupVersionResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Resource, b.Resource))
	})
}

func (b *builder) action(a config.Action, source schema.GroupVersionResource, o expr.Options) rule.ActionTemplate {
	forEach := o
	forEach.Scope = expr.ForEach
	t := rule.ActionTemplate{
		ForEach: b.compile(a.ForEach, forEach), Verb: a.Verb,
		Resource: a.Resource, Subresource: a.Subresource, Warning: a.Warning,
	}
	if t.Resource == (schema.GroupVersionResource{}) {
		t.Resource = source
	}
	t.Elsewhere = t.Resource != source
	if o.Item = t.ForEach; o.Item == nil && !a.ForEach.IsZero() {
		o.Item = new(expr.Program) // its mistake is reported; there is an item all the same
	}
	condition := o
	condition.Scope = expr.When
	t.If = b.compile(a.If, condition)
	t.Namespace, t.Name = b.template(a.Namespace, o), b.template(a.Name, o)
	t.UID, t.ResourceVersion = b.template(a.UID, o), b.template(a.ResourceVersion, o)
	t.Object = b.template(a.Object, o)
	t.Reason, t.Message = b.template(a.Reason, o), b.template(a.Message, o)
	if t.Patch = b.template(a.Patch, o); t.Patch != nil {
		if t.PatchType = rule.MergePatch; a.JSONPatch {
			t.PatchType = rule.JSONPatch
		}
	}
	return t
}

// template compiles a template; nil where there is none.
func (b *builder) template(t *config.Template, o expr.Options) *rule.Template {
	if t == nil {
		return nil
	}
	switch t.Kind {
	case config.TemplateJSON:
		return &rule.Template{JSON: t.JSON}
	case config.TemplateFields:
		out := &rule.Template{Fields: make([]rule.TemplateField, 0, len(t.Fields))}
		for _, f := range t.Fields {
			out.Fields = append(out.Fields, rule.TemplateField{Name: f.Name.String(), Value: b.template(f.Value, o)})
		}
		return out
	case config.TemplateItems:
		out := &rule.Template{Items: make([]*rule.Template, 0, len(t.Items))}
		for _, item := range t.Items {
			out.Items = append(out.Items, b.template(item, o))
		}
		return out
	}
	program, literal, err := expr.CompileTemplate(t.Text.String(), o)
	if err != nil {
		offset := 0
		if mistake, ok := errors.AsType[*expr.Error](err); ok {
			offset = mistake.Offset
		}
		b.mistakes = append(b.mistakes, t.Text.Mistake(offset, err.Error()))
	}
	if program != nil {
		return &rule.Template{Program: program}
	}
	text, _ := json.Marshal(literal) // no string fails
	return &rule.Template{JSON: text}
}
