package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/running"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/targets"
)

// restoreTargets restores who owns what, and what became of the targets of rules' own actions. What
// rules owned that are gone goes to the next in line. It is called within a cut, before the state
// forgets those rules.
func restoreTargets(table *targets.Table, from loaded) {
	byName := func(a, b noteID) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.name, b.name))
	}
	table.Restore(func(yield func(state.Note) bool) {
		for _, id := range slices.SortedFunc(maps.Keys(from.notes), byName) {
			if !yield(state.Note{Rule: id.rule, Name: id.name, Value: from.notes[id]}) {
				return
			}
		}
	})
	for _, gone := range from.decision.Gone {
		table.DropRule(gone.Name) // the heirs are pending
	}
}

// resumeTargets forgets claims that nobody needs: those that own nothing and have no delivery that
// waits, and those that own for rules that prune no more. It has what is left to do go on. It is
// called within a cut.
func resumeTargets(p *running.Parts, rules []*live.Rule, from loaded) {
	table := p.Targets
	waiting := make(map[targets.Asker]bool)
	for _, r := range rules {
		for _, k := range from.waiting[r.ID] {
			waiting[targets.Asker{Rule: r.ID, Key: k.Key}] = r.Actions != nil
		}
		table.Release(r.ID, func(c targets.Claim) bool {
			return c.Owns && !r.Owns() || !c.Owns && !waiting[c.Asker]
		})
		if !r.Owns() && table.Whole(r.ID) != "" {
			table.SetWhole(r.ID, "")
		}
	}
	for _, r := range rules {
		for c := range table.Sorted(r.ID) {
			isHeir := c.State == targets.Asked && c.Former != (targets.Asker{})
			hasMore := isHeir || c.State == targets.Waits || c.State == targets.Dropped
			if c.Owns && hasMore && !waiting[c.Asker] {
				p.Heirs.Add([]targets.Claim{c})
			}
		}
	}
}

// succeedTargets has the targets of a rule's own actions go on after the rule has changed: those
// that wait are tried at once, as the change may have mended them. If the rule has no actions any
// more, they are forgotten; if it prunes no more, it owns nothing. It is called within a cut.
func (r *reload) succeedTargets(rule *live.Rule) {
	table := r.parts.Targets
	r.parts.Heirs.Add(table.Release(rule.ID, func(c targets.Claim) bool {
		return c.Owns && !rule.Owns() || !c.Owns && rule.Actions == nil
	}))
	if !rule.Owns() && table.Whole(rule.ID) != "" {
		table.SetWhole(rule.ID, "")
	}
	switch {
	case rule.Actions == nil:
	case rule.EventsDigest != rule.Before.EventsDigest:
		for _, key := range table.Pending(rule.ID) {
			table.Retry(targets.Asker{Rule: rule.ID, Key: key})
		}
	}
}
