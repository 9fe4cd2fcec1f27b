package admin

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/informd/informd/engine/trail"
)

// Happening is what became of a change of an object for a rule, or of an attempt at its delivery.
type Happening struct {
	Rule, Handler string // Handler is OwnActions for a rule that acts itself
	trail.Entry
}

// MaxHappenings bounds what Happenings returns at once.
const MaxHappenings = 1000

// Happenings returns what has happened for a rule, or for all rules if its name is empty, in order.
// They are the newest, or if after is not 0, the first ones after the Happening of that number. last
// is the number to go on with. missed says that some after that number are forgotten. If there is no
// such rule, the error wraps ErrNotFound.
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
					all = append(all, Happening{r.Name, r.HandlerName(), entry})
				}
			}
		}
	}
	if !found {
		return nil, 0, false, fmt.Errorf("rule %q: %w", rule, ErrNotFound)
	}
	slices.SortFunc(all, func(a, b Happening) int { return cmp.Compare(a.Number, b.Number) })
	if left := len(all) - MaxHappenings; left > 0 && after == 0 {
		all = all[left:]
	} else if left > 0 {
		all = all[:MaxHappenings]
		last = all[len(all)-1].Number
	}
	return all, last, missed, nil
}
