package gather

import (
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

// Stats returns what the groups hold.
func (g *Groups) Stats() Stats {
	s := g.stats
	s.Items, s.Bytes, s.Groups = g.changes.items, g.changes.bytes, len(g.groups)
	if _, at, ok := g.calendar.firstDue(); ok && s.Items > 0 {
		s.Next = g.calendar.time(at)
	}
	return s
}

// Holds returns how many changes of an object wait.
func (g *Groups) Holds(key delta.Key) int { return g.changes.held[key].n }

// Look returns how many changes of an object wait, and when the first event of their groups is
// made.
func (g *Groups) Look(key delta.Key) (n int, next time.Time) {
	of := g.changes.held[key]
	for c := of.oldest; c != nil; c = c.newer {
		if at, ok := g.calendar.dueAt(c.Group); ok {
			next = timing.Earlier(next, at)
		}
	}
	return of.n, next
}

// LastObject returns the object whose delivery was the last event of a group.
func (g *Groups) LastObject(id rule.Group) (key delta.Key, ok bool) {
	if of := g.groups[id]; of != nil && of.hadEvent {
		return of.key, true
	}
	return key, false
}
