package dispatch

import (
	"cmp"
	"time"

	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
)

// The changes of a gathering have bounds over all groups, whoever makes the groups and however long
// they wait: LaneOptions.MaxItems and MaxBytes. Past them
//
//   - changes of one object merge, even if they are of different groups. The result is of the group
//     of the newest one, and as old as the oldest. So each object adds one change at most.
//   - events of groups are made early, the first that is due first, as fast as the handler takes
//     them.
//
// defaultMaxGroups bounds the groups. Past it, the lane forgets groups that have nothing and are
// remembered because of Every; first those that it would forget first anyway. Their next event may
// come early.
//
// No event is made while the lane's queue has as much as it may have under Every. So a handler that
// takes nothing does not move what is gathered to the queue, where nothing merges.
const defaultMaxGroups = 100_000

// restFor is how long no event is made after the handler was found to be behind.
const restFor = time.Second

// isFull reports whether the gathering passes its bounds with some more items, or is at them. The
// caller holds mu.
func (g *gathering) isFull(items int, bytes int64) bool {
	o := &g.lane.opts
	return g.items+items > cmp.Or(o.MaxItems, queue.DefaultMaxItems) ||
		g.bytes+bytes > cmp.Or(o.MaxBytes, queue.DefaultMaxBytes)
}

// makeRoom merges the newest change that waits of c's object into c, or else drops the oldest if
// there are very many. It returns false if nothing is left of c. The caller holds mu.
func (g *gathering) makeRoom(c *gathered) bool {
	of := g.held[c.key]
	if of.n == 0 {
		return true
	}
	last := of.newest
	merged, keep, ok := g.lane.merge(last.value, c.value, last.sent)
	switch {
	case ok:
		g.unrecord(c)
		g.discard(last)
		c.n, c.value, c.size, c.sent = 0, merged, size(&merged), last.sent
		if last.since.Before(c.since) {
			c.since = last.since
		}
		return keep
	case of.n >= queue.DefaultMaxPerKey:
		if of.oldest.value.Version != "" {
			g.lane.settled(c.key, 1)
		}
		g.discard(of.oldest)
	}
	return true
}

// discard removes a change because of a bound. The caller holds mu.
func (g *gathering) discard(c *gathered) {
	g.lost++
	from := g.groups[c.group]
	g.remove(from, c)
	if first := from.changes.Front(); first != nil {
		from.since = first.Value.(*gathered).since
	}
	g.schedule(from)
}

// isBehind reports whether as much waits in the lane's queue as may. The caller holds mu.
func (g *gathering) isBehind() bool {
	o, s := &g.lane.opts, g.lane.queue.Stats()
	return s.Waiting >= cmp.Or(o.MaxItems, queue.DefaultMaxItems) ||
		s.Bytes > cmp.Or(o.MaxBytes, queue.DefaultMaxBytes)
}

// tellSome makes the events of groups that are due, and of others as long as the gathering is full.
// If it gets nowhere, no event is made for a while. The caller holds mu.
func (g *gathering) tellSome(now int64) {
	told := 0
	for range maxTold {
		of := g.next(now)
		if of == nil {
			break
		}
		if g.isBehind() {
			told = 0
			break
		}
		if g.tellGroup(of, now) {
			told++
		}
	}
	if _, at, ok := g.due.First(); told == 0 && ok && (at <= now || g.isFull(0, 0)) {
		g.resting = now + millis(restFor)
	}
}

// next returns the group whose event comes next, or nil. The caller holds mu.
func (g *gathering) next(now int64) *group {
	id, at, ok := g.due.First()
	switch {
	case !ok:
		return nil
	case at <= now:
		return g.groups[rule.Group([]byte(id))]
	case !g.isFull(0, 0):
		return nil
	}
	looked := 0
	for id := range g.due.All() {
		if of := g.groups[rule.Group([]byte(id))]; !of.isBusy {
			return of
		}
		if looked++; looked == maxTold { // so many wait for the handler
			break
		}
	}
	return nil
}

// forgetSome forgets some groups beyond the bound, at least as many as an offer adds. Their last
// delivery may still wait: an object that is always busy must not keep all groups that it ever had.
// The caller holds mu, within the Journal's Begin and End.
func (g *gathering) forgetSome() (isCrowded bool) {
	const most = 4
	for range most {
		id, _, ok := g.idle.First()
		if !ok || len(g.groups) <= g.maxGroups {
			break
		}
		g.drop(rule.Group([]byte(id)))
		g.cut++
		isCrowded = true
	}
	return isCrowded
}

// gatheredStats returns how many changes a lane has gathered, and how many groups it has forgotten
// early. It returns false if the lane gathers nothing.
func (l *Lane) gatheredStats() (items int, forgotten uint64, ok bool) {
	g := l.gathering()
	if g == nil {
		return 0, 0, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.items, g.cut, true
}

// link adds a change behind the others of its object. The caller holds mu.
func (g *gathering) link(c *gathered) {
	of := g.held[c.key]
	c.older, c.newer = of.newest, nil
	if of.newest != nil {
		of.newest.newer = c
	} else {
		of.oldest = c
	}
	of.newest = c
	of.n++
	g.held[c.key] = of
}

// unlink undoes link. The caller holds mu.
func (g *gathering) unlink(c *gathered) {
	of := g.held[c.key]
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		of.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		of.newest = c.older
	}
	c.older, c.newer = nil, nil
	if of.n--; of.n == 0 {
		delete(g.held, c.key)
		return
	}
	g.held[c.key] = of
}
