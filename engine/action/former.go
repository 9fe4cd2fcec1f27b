package action

import (
	"context"
	"encoding/json"

	"github.com/informd/informd/plugins/handler"
)

// managers returns the field managers under which the rule has written.
func (b By) managers() []string {
	if b.Former == "" {
		return []string{FieldManager(b.Rule)}
	}
	return []string{FieldManager(b.Rule), FieldManager(b.Former)}
}

// hasFormer reports whether the rule still owns fields of an object, or of the subresource that t is
// about, under its former name.
func (t task) hasFormer(there metadata) bool {
	return t.by.Former != "" && t.action.Verb == handler.ActionApply &&
		there.applier(FieldManager(t.by.Former), t.action.Subresource) >= 0
}

// release gives up the fields that the rule owns under its former name. It follows an apply, so what the
// rule applies now stays, and only what it applies no more goes. from is the object after that apply.
func (t task) release(ctx context.Context, kind kind, from base) (outcome, *failure) {
	t.by.Rule, t.by.Former = t.by.Former, ""
	t.action.Object = json.RawMessage("{}")
	o, _, f := t.write(ctx, kind, from)
	return o, f
}
