package plan

import (
	"k8s.io/apimachinery/pkg/fields"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// Shares returns the labels of the rule's applies, such as actions[0], that name the same target for
// every object of the source, although prune deletes the target when one of these objects goes. It
// returns only what is certain: nothing of the object is in the target's namespace and name.
func (r *Rule) Shares() (labels []string) {
	if r.Prune == nil || r.Group != nil || selectsOneName(r) { // a group has names in items
		return nil
	}
	for i := range r.Actions.Each {
		a := &r.Actions.Each[i]
		isPruned := a.Verb == handler.ActionApply && a.Subresource == ""
		if isPruned && !picksByName(a.If) && isShared(a, "namespace") && isShared(a, "name") {
			labels = append(labels, a.Label)
		}
	}
	return labels
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
	if !p.Paths().IsEmpty() || p.ReadsOld() || p.ReadsEvent() || p.ReadsIndex() || p.ReadsTime() {
		return false
	}
	return !p.ReadsItem() || isSame(forEach, nil)
}
