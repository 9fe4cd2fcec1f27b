package gather

import (
	"time"

	"github.com/informd/informd/engine/rule"
)

// Legacy is what Groups leave to those that take their place.
type Legacy struct {
	Last map[rule.Group]LastEvent

	changes []*Change // of the groups before
	origin  time.Time
	number  uint64
	lost    uint64
}

// Changes returns copies of the changes: the groups before keep theirs, and may still be looked at.
func (l *Legacy) Changes() []*Change {
	all := make([]*Change, 0, len(l.changes))
	for _, c := range l.changes {
		all = append(all, &Change{
			Group: c.Group, Value: c.Value, Since: c.Since, Sent: c.Sent, N: c.N,
		})
	}
	return all
}

// Leave returns what the groups have. They must not be changed afterwards.
func (g *Groups) Leave(now time.Time) *Legacy {
	left := &Legacy{
		Last:   make(map[rule.Group]LastEvent),
		origin: g.calendar.origin, number: g.changes.number, lost: g.stats.Lost,
	}
	for id, of := range g.groups {
		for c := of.changes.first(); c != nil; c = c.next() {
			left.changes = append(left.changes, c)
		}
		if of.hadEvent {
			since := time.Duration(g.calendar.now(now)-of.made) * time.Millisecond
			left.Last[id] = LastEvent{At: now.Add(-since), Key: of.key}
		}
	}
	return left
}

// Continue makes the groups, which are new, go on with the numbers and the times of those before.
// The changes and the last events come later, with Adopt and Restore.
func (g *Groups) Continue(left *Legacy) {
	g.changes.number, g.stats.Lost = left.number, left.lost
	// what was loaded has no monotonic reading: clocks may have been set since
	g.calendar.origin = left.origin
}

// Reserve makes records have numbers above n.
func (g *Groups) Reserve(n uint64) { g.changes.number = max(g.changes.number, n) }

// Restore notes when the last event of a group was made. A time in the future counts as now.
func (g *Groups) Restore(id rule.Group, last LastEvent, now time.Time) {
	since := max(0, now.Round(0).Sub(last.At.Round(0)))
	of := g.group(id)
	of.hadEvent, of.key, of.made = true, last.Key, g.calendar.now(now)-since.Milliseconds()
	g.schedule(of)
}
