package running

import (
	"fmt"

	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// Became returns the running rule that a rule of another plan goes on with, or nil.
func (w *Work) Became(r *plan.Rule) *live.Rule {
	if old := w.Rule(r.Name); old != nil || r.Former == "" {
		return old
	}
	if old := w.Rule(r.Former); old != nil && old.Resource() == object.ResourceName(r.Source.Resource) {
		return old
	}
	return nil
}

// Successor returns the rule that old has become in w, whose plan is the next one. It is nil if old
// is gone.
func (w *Work) Successor(old *live.Rule) *live.Rule {
	for _, r := range w.Rules {
		if r == old || r.Before == old {
			return r
		}
	}
	// about another resource now
	if r := w.Rule(old.Name); r != nil && r.Before == nil {
		return r
	}
	return nil
}

// newID returns the id of a rule that takes the place of old, or is new if old is nil.
func (b *builder) newID(r *plan.Rule, old *live.Rule) string {
	if old != nil {
		return old.ID
	}
	return FreeID(r.Name, func(id string) bool {
		is := b.before.ByID(id)
		return is != nil && is.Name != r.Name || b.next.ByID(id) != nil
	})
}

// FreeID returns an id for a new rule. It is the rule's name unless a renamed rule has that.
func FreeID(name string, isTaken func(id string) bool) string {
	id := name
	for n := 2; isTaken(id); n++ {
		id = fmt.Sprintf("%s#%d", name, n) // no name of a rule
	}
	return id
}
