package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// actions compiles the actions of a rule. o are the options of its other expressions.
func (b *builder) actions(out *Rule, r config.Rule, o expr.Options) {
	out.Actions = &rule.Actions{
		Prune: r.Prune, Deleted: !r.AllEvents, IsScheduled: r.Schedule != nil,
	}
	for i, a := range r.Actions {
		t := b.action(a, out.Source, o)
		t.Label = fmt.Sprintf("actions[%d]", i)
		out.Actions.Each = append(out.Actions.Each, t)
		isUnserved := t.Resource.Resource == "" && a.Kind.Kind != ""
		if isUnserved && !slices.Contains(out.Actions.Unserved, a.Kind) {
			out.Actions.Unserved = append(out.Actions.Unserved, a.Kind)
		}
		isPruned := r.Prune && a.Verb == config.Apply && a.Subresource == "" && !isUnserved
		if isPruned && !slices.Contains(out.Prune, a.Resource) {
			out.Prune = append(out.Prune, a.Resource)
		}
	}
	slices.SortFunc(out.Prune, func(a, b schema.GroupVersionResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Version, b.Version), cmp.Compare(a.Resource, b.Resource))
	})
}

func (b *builder) action(
	a config.Action, source *Source, o expr.Options,
) rule.ActionTemplate {
	isAlone := o.NoSource // its own object is in no cluster
	forEach := o
	forEach.Scope = expr.ForEach
	t := rule.ActionTemplate{
		ForEach: b.compile(a.ForEach, forEach), Verb: a.Verb,
		Resource: a.Resource, Subresource: a.Subresource, Warning: a.Warning,
	}
	nowhere := schema.GroupVersionResource{}
	if t.Resource == nowhere {
		t.Resource = source.Resource
	}
	t.Elsewhere = t.Resource != source.Resource || isAlone
	if o.Item = t.ForEach; o.Item == nil && !a.ForEach.IsZero() {
		o.Item = new(expr.Program) // its mistake is reported; item has a meaning all the same
	}
	condition := o
	condition.Scope = expr.When
	t.If = b.compile(a.If, condition)
	t.Namespace, t.Name = b.template(a.Namespace, o), b.template(a.Name, o)
	t.UID = b.changing(a.UID, "uid", o)
	t.ResourceVersion = b.changing(a.ResourceVersion, "resourceVersion", o)
	t.Object = b.template(a.Object, o)
	t.Reason, t.Message = b.template(a.Reason, o), b.template(a.Message, o)
	t.Patch = b.template(a.Patch, o)
	if a.Verb == config.Apply || a.Verb == config.Create {
		b.checkVersion(a)
		t.IsManifest = a.Kind.Kind != ""
		t.Object.Require("metadata", "name")
		t.Object.Require("metadata", "namespace")
		b.requireStrings(a.Object, t.Object, t.Resource)
		return t
	}
	switch {
	case isAlone && (a.Resource == nowhere || a.Name == nil):
		b.mistake(a.At, "%s needs a resource and a name here, and a namespace if the resource has "+
			"them: the rule has no source whose objects it could be about", a.Verb)
	case t.Elsewhere && a.Name == nil && source.Resource != nowhere:
		b.mistake(a.ResourceAt, "%s needs a name here, and a namespace if the resource has them: "+
			"the rule's objects are %s (without a resource, it is about the object that changed)",
			a.Verb, object.ResourceName(source.Resource))
	}
	if a.Verb == config.Patch {
		t.PatchType = handler.MergePatch
		if t.Patch != nil && !a.JSONPatch {
			t.Patch.KeepNils() // null removes the member
			b.requireStrings(a.Patch, t.Patch, t.Resource)
		}
		if a.JSONPatch && t.Patch != nil {
			t.PatchType = handler.JSONPatch
			b.requireStringsInJSON(a.Patch, t.Patch, t.Resource)
			for _, operation := range t.Patch.Items {
				for _, member := range []string{"op", "path", "value", "from"} {
					operation.Require(member)
				}
			}
		}
	}
	return t
}

// checkVersion reports an object whose apiVersion is not that of the action's resource.
func (b *builder) checkVersion(a config.Action) {
	if a.Object == nil || a.Resource == (schema.GroupVersionResource{}) {
		return
	}
	want := a.Resource.GroupVersion().String()
	for _, m := range a.Object.Members {
		text := ""
		if m.Value.Kind == config.ValueTemplate {
			text = m.Value.Text.String()
		}
		if m.Name.String() == "apiVersion" && text != want && !strings.Contains(text, "${") {
			b.mistake(m.Name, "the resource %s has the apiVersion %s: "+
				"leave it out here, and kind as well", a.ResourceAt, want)
		}
	}
}

// changing compiles a template that must have an expression, because its value differs between
// objects.
func (b *builder) changing(v *config.Value, name string, o expr.Options) *rule.Template {
	before := len(b.mistakes)
	out := b.template(v, o)
	if v != nil && !v.Text.IsZero() && len(b.mistakes) == before && out.Program == nil {
		b.mistake(v.Text, "a %s differs from object to object: "+
			"write an expression, as \"${item.metadata.%s}\"", name, name)
	}
	return out
}
