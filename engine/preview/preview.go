// Package preview has what a reload would change, as values and in words. It is pure: the engine
// finds out, and operators read it before they reload.
package preview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/plugins/handler"
)

// Changes are what a reload of a plan would change now.
type Changes struct {
	// Selections of informers: those that stay, those that would begin, and list, and those that
	// would end. Widened ones stay, and would list again, to keep more of their objects. Rules
	// without a source have none here.
	Kept, Begun, Ended, Widened []object.Selection
	// Rules are those that would change, in the order of the plan; gone ones last. A rule of which
	// only the handler changes is not among them.
	Rules    []Rule
	Handlers Names
	Metrics  Names
}

// Names are those of handlers, or metrics, that are new, change and are gone.
type Names struct{ Added, Changed, Gone []string }

// Rule says how a rule would change, and what it would receive at once, before its when and events.
type Rule struct {
	Name   string
	Former string // the name that it has until now; empty unless the change renames it
	Change Change
	// In is how many objects come in or stay in, and are delivered as Synced; Out how many fall
	// out, and are delivered as Deleted. Pending is how many begin to wait.
	In, Out, Pending int
	// Lists says that the rule would also receive what informers list that are yet to begin, or
	// have to keep more of their objects.
	Lists bool
	// Dropped is how many deliveries that wait would be dropped.
	Dropped int
	// AppliesLater says that the rule selects Synced, and would still receive nothing about objects
	// as they are.
	AppliesLater bool
	// Leaves says that the rule would be gone and prunes: what it has applied stays.
	Leaves bool
	// Releases says that the rule would no longer own what it applies, because it does not prune.
	Releases bool
	// BySource says that the rule's own manifest stays the same, and a source that it reads
	// changes.
	BySource bool
	// Does has what the rule would do by itself, and does not do yet: a verb and a resource, such
	// as "deletes v1/pods".
	Does []string
}

// Change is how a rule would change.
type Change string

// The changes of rules. A rule about another resource than before is replaced.
const (
	Added    Change = "added"
	Changed  Change = "changed"
	Replaced Change = "replaced"
	Gone     Change = "gone"
)

// deeds are the words for the actions of rules, by verb.
var deeds = map[string]string{
	handler.ActionApply: "applies", handler.ActionCreate: "creates", handler.ActionPatch: "patches",
	handler.ActionDelete: "deletes", handler.ActionEvent: "writes Events about",
}

// NewDeeds returns what a rule does by itself that the rule before, which may be nil, does not.
func NewDeeds(old, r *plan.Rule) (does []string) {
	of := func(r *plan.Rule) (all []string) {
		if r.Actions != nil {
			for _, kind := range r.Actions.Unserved {
				all = append(all, fmt.Sprintf("applies or creates %s of %s, a kind that the cluster does not "+
					"serve yet", kind.Kind, kind.GroupVersion()))
			}
			for _, a := range r.Actions.Each {
				resource := a.Resource
				if resource.Resource == "" { // its kind is not served
					continue
				}
				if a.Subresource != "" {
					resource.Resource += "/" + a.Subresource
				}
				all = append(all, deeds[a.Verb]+" "+object.ResourceName(resource))
			}
		}
		for _, resource := range r.Prune {
			all = append(all, "deletes "+object.ResourceName(resource)+" that it applied and no longer wants")
		}
		return all
	}
	var before []string
	if old != nil {
		before = of(old)
	}
	for _, one := range of(r) {
		if !slices.Contains(before, one) && !slices.Contains(does, one) {
			does = append(does, one)
		}
	}
	return does
}

// Count counts an object that the rule had inside before, or not.
func (v *Rule) Count(before bool, r *plan.Rule, tree any, now time.Time) {
	inside, mark, _ := r.FirstSight(tree, before, now) // an expression that fails does not match
	switch {
	case inside && !r.OnlyInRounds:
		v.In++
	case inside:
	case before:
		v.Out++
	}
	if !mark.IsZero() {
		v.Pending++
	}
}

// AppliesLater says in words what a changed rule does that applies later: see Rule.
func AppliesLater(rule string) string {
	return "the change applies to each object when that changes next; to apply it to all now: " +
		"informd rule resync " + rule
}

// Left says in words what it means that a rule Leaves what it has applied.
const Left = "what it has applied stays: informd applied lists it, and gives it to another rule or deletes it"

// Released says in words what it means that a rule Releases what it has applied.
const Released = "it no longer prunes: what it has applied stays, and goes to the next object or " +
	"rule that asks for it"

// String returns the preview of a rule in words.
func (v Rule) String() string {
	var parts []string
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	add(v.Out, "object falls out (deleted)", "objects fall out (deleted)")
	add(v.In, "object comes in (synced)", "objects come in (synced)")
	add(v.Pending, "object begins to wait", "objects begin to wait")
	if v.Lists {
		parts = append(parts, "all objects that its source lists come in (synced)")
	}
	add(v.Dropped, "delivery that waits is dropped", "deliveries that wait are dropped")
	text := map[Change]string{
		Added: "is new", Changed: "changes", Gone: "is gone",
		Replaced: "is about another resource, so it begins anew",
	}[v.Change]
	switch {
	case v.BySource:
		text = "changes with a source that it reads"
	case v.Former != "" && len(parts) == 0 && len(v.Does) == 0:
		text = "keeps what it had"
	}
	if len(v.Does) > 0 {
		parts = append(parts, "it "+strings.Join(v.Does, ", "))
	}
	if v.AppliesLater {
		parts = append(parts, AppliesLater(v.Name))
	}
	if v.Releases {
		parts = append(parts, Released)
	}
	if v.Leaves {
		parts = append(parts, Left)
	}
	if len(parts) == 0 {
		return text
	}
	return text + ": " + strings.Join(parts, "; ")
}
