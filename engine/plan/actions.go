package plan

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

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
		t.Label = fmt.Sprintf("actions[%d]", i)
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
	nowhere := schema.GroupVersionResource{}
	if t.Resource == nowhere {
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
	t.UID, t.ResourceVersion = b.changing(a.UID, "uid", o), b.changing(a.ResourceVersion, "resourceVersion", o)
	t.Object = b.template(a.Object, o)
	t.Reason, t.Message = b.template(a.Reason, o), b.template(a.Message, o)
	t.Patch = b.template(a.Patch, o)
	if a.Verb == config.Apply || a.Verb == config.Create {
		b.checkVersion(a)
		t.Object.Require("metadata", "name")
		t.Object.Require("metadata", "namespace")
		return t
	}
	if t.Elsewhere && a.Name == nil && source != nowhere {
		b.mistakes = append(b.mistakes, a.ResourceAt.Mistake(0, fmt.Sprintf("the rule is about other objects than these: say which one, with a name "+
			"and, if it is in one, a namespace (without a resource, %s is about the object that changed)", a.Verb)))
	}
	if a.Verb == config.Patch {
		t.PatchType = rule.MergePatch
		if a.JSONPatch && t.Patch != nil {
			t.PatchType = rule.JSONPatch
			for _, operation := range t.Patch.Items {
				for _, member := range []string{"op", "path", "value", "from"} {
					operation.Require(member)
				}
			}
		}
	}
	return t
}

// checkVersion holds the apiVersion that an object says it has against the resource.
func (b *builder) checkVersion(a config.Action) {
	if a.Object == nil || a.ResourceAt.IsZero() {
		return
	}
	want := a.Resource.GroupVersion().String()
	for _, f := range a.Object.Fields {
		text := ""
		if f.Value.Kind == config.TemplateText {
			text = f.Value.Text.String()
		}
		if f.Name.String() == "apiVersion" && text != want && !strings.Contains(text, "${") {
			b.mistakes = append(b.mistakes, f.Name.Mistake(0, fmt.Sprintf("the resource %s has the apiVersion %s: leave it out here, and kind as well",
				a.ResourceAt, want)))
		}
	}
}

// changing compiles a template of what no author knows beforehand.
func (b *builder) changing(t *config.Template, name string, o expr.Options) *rule.Template {
	before := len(b.mistakes)
	out := b.template(t, o)
	if t != nil && !t.Text.IsZero() && len(b.mistakes) == before && out.Program == nil {
		b.mistakes = append(b.mistakes, t.Text.Mistake(0, fmt.Sprintf("a %s differs from object to object: write an expression, as "+
			"\"${item.metadata.%s}\"", name, name)))
	}
	return out
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
			out.Fields = append(out.Fields, rule.TemplateField{Name: b.key(f.Name), Value: b.template(f.Value, o)})
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
	switch {
	case err != nil:
		b.mistaken(t.Text, err)
	case program != nil:
		return &rule.Template{Program: program}
	case bare.MatchString(literal):
		if _, err := expr.Compile(literal, o); err == nil {
			b.mistakes = append(b.mistakes, t.Text.Mistake(0, fmt.Sprintf("this is the text itself; for what the expression gives write \"${%s}\"", literal)))
		}
	}
	return rule.Constant(literal)
}

// bare is what looks like an expression whose ${ and } have been forgotten.
var bare = regexp.MustCompile(`^((object|old|item)\.(metadata|spec|status|data|stringData|type|kind)\b|(lookup|byIndex)\(")`)

// key is the name of a member, which no expression can make.
func (b *builder) key(name config.Text) string {
	program, literal, err := expr.CompileTemplate(name.String(), expr.Options{Scope: expr.Payload})
	if program != nil || err != nil {
		b.mistakes = append(b.mistakes, name.Mistake(0, `a key cannot have expressions in it; to make the keys too, write the mapping as `+
			`one expression: "${fromPairs([[key, value]])}" or "${ {a: 1} }"`))
		return ""
	}
	return literal
}
