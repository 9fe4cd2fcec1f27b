package plan

import (
	"k8s.io/apimachinery/pkg/fields"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// Owns reports whether source objects own the targets that the rule applies: see package targets.
// Those of a group or a schedule do not, as one event of theirs is not about one object.
func (r *Rule) Owns() bool {
	return r.Actions != nil && r.Actions.Prune && r.Group == nil && !r.IsScheduled
}

// Shares returns the labels of the rule's applies, such as actions[0], that name the same targets
// for every object of the source. If objects own their targets, the first one to ask for a target has
// it, and the others are refused. Otherwise each overwrites what another one applied, and with prune
// deletes it. Without prune, an apply that takes nothing from the object does no harm. Shares returns
// only what is certain: nothing of the object is in the target's namespace and name.
func (r *Rule) Shares() (labels []string) {
	// A group has names in items, and a rule without a source has one object.
	if r.Actions == nil || r.Group != nil || r.Source.IsRule() || selectsOneName(r) {
		return nil
	}
	for i := range r.Actions.Each {
		a := &r.Actions.Each[i]
		isContested := a.Verb == handler.ActionApply && (r.Prune == nil || a.Subresource == "") &&
			(r.Prune != nil || readsObject(a))
		if isContested && !picksByName(a.If) && isShared(a, "namespace") && isShared(a, "name") {
			labels = append(labels, a.Label)
		}
	}
	return labels
}

// readsObject reports whether anything of the object that triggers the rule is in what an action
// applies.
func readsObject(a *rule.ActionTemplate) (reads bool) {
	ofObject := func(p *expr.Program) bool {
		return p != nil && (p.ReadsObject() || p.ReadsOld() || p.ReadsEvent())
	}
	a.Object.Each(func(p *expr.Program) {
		reads = reads || ofObject(p) || p.ReadsItem() && ofObject(a.ForEach)
	})
	return reads
}

// selectsOneName reports whether the source of a rule has a single name, or the rule may select by
// name.
func selectsOneName(r *Rule) bool {
	for _, informer := range r.Source.Informers {
		selector, err := fields.ParseSelector(informer.FieldSelector)
		if err != nil {
			return true
		}
		if _, isOne := selector.RequiresExactMatch("metadata.name"); isOne {
			return true
		}
	}
	return picksByName(r.Where) || picksByName(r.When)
}

// picksByName reports whether a condition may hold for a single object because it reads which object
// it is.
func picksByName(condition *expr.Program) bool {
	if condition == nil {
		return false
	}
	p := condition.Paths()
	return p.Covers("metadata", "name") || p.Covers("metadata", "uid")
}

// isShared reports whether a field of an applied object's metadata is the same for all objects of the
// source. A field that the template leaves out is.
func isShared(a *rule.ActionTemplate, field string) bool {
	t := a.Object
	for _, name := range []string{"metadata", field} {
		if t == nil || t.Members == nil {
			break // this part of the template makes the field
		}
		var below *rule.Template
		for _, m := range t.Members {
			if m.Name == name {
				below = m.Value
			}
		}
		t = below
	}
	shared := true
	t.Each(func(p *expr.Program) { shared = shared && isSame(p, a.ForEach) })
	return shared
}

// isSame reports whether a program gives the same value for all objects of the source, at any one
// moment. forEach gives the elements that item stands for; it may be nil.
func isSame(p, forEach *expr.Program) bool {
	if p.ReadsObject() || p.ReadsOld() || p.ReadsEvent() || p.ReadsTime() {
		return false
	}
	return !p.ReadsItem() || isSame(forEach, nil)
}
