package plan

import (
	"encoding/json"

	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/plugins/handler"
)

// Undoing says that a rule deletes again what it applies: a patch ends the membership of its own
// object, so that prune deletes what the same change has applied.
type Undoing struct {
	Patch     string // the action, as actions[1]
	Apply     string // the action whose object is deleted
	Condition string // of where: it is false once the patch is made
}

// Undoes returns how the rule deletes again what it applies. It returns only what is certain, whatever
// the object is.
func (r *Rule) Undoes() (u Undoing, ok bool) {
	if r.Prune == nil || r.Where == nil || r.When != nil { // a when can keep it from pruning
		return u, false
	}
	for i := range r.Actions.Each {
		patch := &r.Actions.Each[i]
		u = Undoing{Patch: patch.Label, Apply: appliedWith(r, patch)}
		if u.Apply == "" {
			continue
		}
		if u.Condition = endedBy(r.Where, patch); u.Condition != "" {
			return u, true
		}
	}
	return Undoing{}, false
}

// appliedWith returns the label of an apply that the rule prunes and that is never performed without
// the patch, or "". patch is any action: "" if it is no such patch of the rule's own object.
func appliedWith(r *Rule, patch *rule.ActionTemplate) string {
	isOwn := patch.Resource == r.Source.Resource && patch.Namespace == nil && patch.Name == nil
	if patch.PatchType != handler.MergePatch || !isOwn || patch.ForEach != nil {
		return ""
	}
	for _, a := range r.Actions.Each {
		isPruned := a.Verb == handler.ActionApply && a.Subresource == ""
		isWith := patch.If == nil || a.If != nil && a.If.Text() == patch.If.Text()
		if isPruned && isWith {
			return a.Label
		}
	}
	return ""
}

// endedBy returns the condition of a where that is false once a patch is made, whatever the object
// was, or "". It knows those that read nothing but what the patch sets to constants.
func endedBy(where *expr.Program, patch *rule.ActionTemplate) string {
	for _, text := range expr.Conjuncts(where.Text()) {
		condition, err := expr.Compile(text, expr.Options{Scope: expr.Where})
		if err != nil {
			continue
		}
		tree, isKnown := make(map[string]any), true
		paths := condition.Paths().List()
		for _, path := range paths {
			if last := len(path) - 1; path[last] == "" { // whether there is a value
				path = path[:last]
			}
			value, ok := setBy(patch, path)
			isKnown = isKnown && ok
			put(tree, path, value)
		}
		if len(paths) == 0 || !isKnown {
			continue
		}
		if holds, err := condition.Bool(&expr.Env{Object: tree}); err == nil && !holds {
			return text
		}
	}
	return ""
}

// setBy returns what a patch sets a field to: nil if it removes it. ok is false if that is not certain.
// A patch of the status sets nothing else, and no other patch sets the status.
func setBy(patch *rule.ActionTemplate, path []string) (value any, ok bool) {
	if len(path) == 0 || (path[0] == "status") != (patch.Subresource == "status") {
		return nil, false
	}
	t := patch.Patch
	for i, name := range path {
		switch {
		case t == nil || t.Program != nil || t.Items != nil:
			return nil, false
		case t.JSON != nil:
			return within(t.JSON, path[i:])
		}
		var below *rule.Template
		for _, m := range t.Members {
			if m.Name == name {
				below = m.Value
			}
		}
		t = below
	}
	if t == nil || t.JSON == nil {
		return nil, false
	}
	return within(t.JSON, nil)
}

// within returns the value at a path of a constant part of a merge patch. ok is false if the patch
// leaves there what there was, or merges with it.
func within(text json.RawMessage, path []string) (value any, ok bool) {
	if json.Unmarshal(text, &value) != nil {
		return nil, false
	}
	for _, name := range path {
		m, isMap := value.(map[string]any)
		if !isMap {
			return nil, value == nil // what is removed has no fields
		}
		if value, ok = m[name]; !ok {
			return nil, false
		}
	}
	switch value.(type) {
	case nil, string, bool:
		return value, true
	}
	return nil, false
}

// put sets a field of a tree. A nil value leaves it out.
func put(tree map[string]any, path []string, value any) {
	last := len(path) - 1
	if last < 0 {
		return
	}
	for _, name := range path[:last] {
		below, _ := tree[name].(map[string]any)
		if below == nil {
			below = make(map[string]any)
			tree[name] = below
		}
		tree = below
	}
	if value != nil {
		tree[path[last]] = value
	}
}
