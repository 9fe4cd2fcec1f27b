package admin

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/explain"
	"github.com/informd/informd/engine/trail"
)

// Happening is what became of a change of an object for a rule, or of an attempt at its delivery.
type Happening struct {
	Rule, Handler string // Handler is OwnActions for a rule that acts itself
	trail.Entry
	// Targets has what came by now of the targets of the rule's own actions, if the event waits for
	// another attempt after this one, and nil otherwise.
	Targets *explain.Targets
}

// maxHappenings bounds what Happenings returns at once.
const maxHappenings = 1000

// Happenings returns what has happened for a rule, or for all rules if its name is empty, in order.
// They are the newest, or if after is not 0, the first ones after the Happening of that number.
// last is the number to go on with. missed says that some after that number are forgotten. If there
// is no such rule, the error wraps ErrNotFound.
func (d *Desk) Happenings(rule string, after uint64) (
	all []Happening, last uint64, missed bool, err error,
) {
	last = d.trail.Last() // those that come meanwhile come again
	found := rule == ""
	for _, r := range d.present.Work().Rules {
		if rule != "" && r.Name != rule {
			continue
		}
		found = true
		for _, t := range []*trail.Trail{r.Trails.Changes, r.Trails.Attempts} {
			entries, isMissed := t.After(after)
			missed = missed || isMissed
			if t == r.Trails.Attempts {
				r.Trails.SinceSelected(entries)
			}
			for _, entry := range entries {
				if entry.Number <= last {
					all = append(all, Happening{Rule: r.Name, Handler: r.HandlerName(), Entry: entry})
				}
			}
		}
	}
	if !found {
		return nil, 0, false, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	}
	slices.SortFunc(all, func(a, b Happening) int { return cmp.Compare(a.Number, b.Number) })
	if left := len(all) - maxHappenings; left > 0 && after == 0 {
		all = all[left:]
	} else if left > 0 {
		all = all[:maxHappenings]
		last = all[len(all)-1].Number
	}
	d.addTargets(all)
	return all, last, missed, nil
}

// addTargets adds the targets of the events that wait, each to its last attempt.
func (d *Desk) addTargets(all []Happening) {
	type event struct {
		rule string
		key  delta.Key
	}
	w, seen := d.present.Work(), make(map[event]bool)
	for i := range slices.Backward(all) {
		h := &all[i]
		of := event{h.Rule, h.Key}
		if h.Attempt == 0 || seen[of] {
			continue
		}
		seen[of] = true
		if r := w.Rule(h.Rule); r != nil && h.Verdict == trail.Retried {
			h.Targets = shown{d, w, r, true}.of(h.Key, someTargets)
		}
	}
}
