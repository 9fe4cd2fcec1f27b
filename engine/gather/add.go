package gather

import (
	"cmp"
	"slices"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/rule"
)

// Add adds a change that has just come. isCrowded says that changes were merged or dropped, or
// groups forgotten, because of a bound.
func (g *Groups) Add(c *Change) (isCrowded bool) {
	isCrowded = g.add(c)
	return g.forgetSome() || isCrowded
}

// add adds a change behind the others of its group, or merges it with the last one of its object.
func (g *Groups) add(c *Change) (isCrowded bool) {
	c.size = delivery.Size(&c.Value)
	of := g.group(c.Group)
	isFull := g.changes.isFull(1, c.size)
	last := g.changes.last[c.place()]
	if last != nil && (isFull || !g.opts.KeepsEach) && g.mergeInto(of, last, c, isFull) {
		return isFull
	}
	if isFull {
		isLeft := g.makeRoom(c)
		g.groups[c.Group] = of // it may have become empty meanwhile
		if !isLeft {
			g.schedule(of)
			return true
		}
	}
	if c.N == 0 {
		g.changes.record(c)
	}
	g.changes.add(of, c)
	if of.changes.Len() == 1 || c.Since.Before(of.since) {
		of.since = c.Since
		g.schedule(of)
	}
	return isFull
}

// mergeInto merges a change into the last one of its object in its group. It returns false if the
// two do not merge.
func (g *Groups) mergeInto(of *group, last, c *Change, isFull bool) bool {
	merged, keep, ok := g.opts.Merge(last.Value, c.Value, last.Sent)
	if !ok {
		return false
	}
	g.changes.unrecord(c)
	if isFull {
		g.stats.Lost++
	}
	if !keep {
		g.changes.remove(of, last)
		g.schedule(of)
		return true
	}
	g.changes.renew(of, last, merged)
	return true
}

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

// Adopt puts older changes in front of those that have come since.
func (g *Groups) Adopt(older []*Change) {
	var newer []*Change
	for _, of := range g.groups {
		newer = append(newer, g.changes.empty(of)...)
	}
	for _, all := range [][]*Change{older, newer} {
		slices.SortFunc(all, func(a, b *Change) int { return cmp.Compare(a.N, b.N) })
	}
	last := g.changes.number
	for _, c := range slices.Concat(older, newer) {
		if g.changes.number > last { // a merged one before it has a new number
			g.changes.unrecord(c)
			c.N = 0
		}
		g.add(c)
	}
}

// Disband makes each change of a group an event of its own, in order.
func (g *Groups) Disband(id rule.Group, to Outlet) {
	of := g.groups[id]
	if of == nil {
		return
	}
	for _, c := range g.changes.empty(of) {
		g.changes.unrecord(c)
		to.AddSince(c.key(), c.Value, c.Since)
	}
	g.schedule(of)
}
