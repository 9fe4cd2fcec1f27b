package gather

import (
	"time"

	"github.com/informd/informd/engine/delivery"
)

// Bounds hold over all groups, whoever makes the groups and however long they wait. Past MaxItems
// and MaxBytes
//
//   - changes of one object merge, even if they are of different groups. The result is of the group
//     of the newest one, and as old as the oldest. So each object adds one change at most, or
//     MaxPerObject if they do not merge.
//   - events of groups are made early, the first that is due first, as fast as the outlet takes
//     them.
//
// Past MaxGroups, groups are forgotten that have nothing and are remembered because of Every; first
// those that would be forgotten first anyway. Their next event may come early.
//
// No event is made while the outlet is full. So a handler that takes nothing does not move what is
// gathered to the queue, where nothing merges.
type Bounds struct {
	MaxItems     int
	MaxBytes     int64
	MaxPerObject int
	MaxGroups    int // 0 means 100,000
}

const defaultMaxGroups = 100_000

// restFor is how long no event is made after the outlet was found to be full, or all groups busy.
const restFor = time.Second

// makeRoom merges the newest change that waits of c's object into c, or else drops the oldest if
// there are very many. It returns false if nothing is left of c.
func (g *Groups) makeRoom(c *Change) bool {
	of := g.changes.held[c.key()]
	if of.n == 0 {
		return true
	}
	last := of.newest
	merged, keep, ok := g.opts.Merge(last.Value, c.Value, last.Sent)
	switch {
	case ok:
		g.changes.unrecord(c)
		g.discard(last)
		c.N, c.Value, c.size, c.Sent = 0, merged, delivery.Size(&merged), last.Sent
		if last.Since.Before(c.Since) {
			c.Since = last.Since
		}
		return keep
	case of.n >= g.opts.MaxPerObject:
		g.opts.Dropped(&of.oldest.Value)
		g.discard(of.oldest)
	}
	return true
}

// discard removes a change because of a bound.
func (g *Groups) discard(c *Change) {
	g.stats.Lost++
	from := g.groups[c.Group]
	g.changes.remove(from, c)
	from.restart()
	g.schedule(from)
}

// emitSome makes the events of groups that are due, and of others as long as the groups are full. If
// it gets nowhere, no event is made for a while.
func (g *Groups) emitSome(at time.Time, to Outlet) {
	now, made := g.calendar.now(at), 0
	for range maxEvents {
		of := g.next(now)
		if of == nil {
			break
		}
		if to.IsFull() {
			made = 0
			break
		}
		if g.emit(of, at, to) {
			made++
		}
	}
	if _, due, ok := g.calendar.firstDue(); made == 0 && ok && (due <= now || g.changes.isFull(0, 0)) {
		g.calendar.resting = now + millis(restFor)
	}
}

// next returns the group whose event comes next, or nil.
func (g *Groups) next(now int64) *group {
	id, at, ok := g.calendar.firstDue()
	switch {
	case !ok:
		return nil
	case at <= now:
		return g.groups[id]
	case !g.changes.isFull(0, 0):
		return nil
	}
	looked := 0
	for id := range g.calendar.allDue() {
		if of := g.groups[id]; !of.isBusy {
			return of
		}
		if looked++; looked == maxEvents { // so many wait for the handler
			break
		}
	}
	return nil
}

// forgetSome forgets some groups beyond the bound, at least as many as Add adds. Their last delivery
// may still wait: an object that is always busy must not keep all groups that it ever had.
func (g *Groups) forgetSome() (hasForgotten bool) {
	const most = 4
	for range most {
		id, _, ok := g.calendar.firstIdle()
		if !ok || len(g.groups) <= g.opts.MaxGroups {
			break
		}
		g.forget(id)
		g.stats.Forgotten++
		hasForgotten = true
	}
	return hasForgotten
}
