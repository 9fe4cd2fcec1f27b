package targets

// own makes a claim that owns nothing one that owns, behind all others or in front of them. It
// records only what becomes of the others.
func (l *ledger) own(c *claim, isFirst bool) {
	l.counts[0]--
	l.counts[1]++
	c.owns = true
	first := c.place.owner()
	if first == nil || !isFirst {
		l.order++
		c.order = l.order
		c.place.owners.PushBack(&c.inPlace)
		if first != nil {
			l.reset(c)
		}
		return
	}
	l.pass(c, first)
}

// pass puts a claim, which is in no list of owners, in front of the owner.
func (l *ledger) pass(c, first *claim) {
	l.goFirst(c)
	if first.isDropped {
		l.erase(first)
		return
	}
	l.reset(first)
	l.put(first)
}

// goFirst puts a claim, which is in no list of owners, in front of the others.
func (l *ledger) goFirst(c *claim) {
	c.order = c.place.owner().order - 1
	c.place.owners.InsertBefore(&c.inPlace, c.place.owners.Front())
}

// takeOver gives a claim the target of an owner that is dropped, unless that is being deleted.
func (l *ledger) takeOver(c *claim) {
	first := c.place.owner()
	if !c.owns || first == c || !first.isDropped || c.place.open > 0 {
		return
	}
	l.erase(first)
	if !c.isOwner() { // another one asked earlier, but its wave is not there yet
		c.place.owners.Remove(&c.inPlace)
		l.goFirst(c)
	}
	l.handOver(first)
}

// drop notes that a source object asks for a target no more. If another claim has the target now,
// drop returns it.
func (l *ledger) drop(c *claim) (heir *claim) {
	isOwner := c.isOwner()
	if isOwner && c.isRecorded && !c.place.hasHeir() {
		if !c.isDropped {
			c.isDropped = true
			if !c.isForeign() { // otherwise whoever takes it over is to know
				l.setTrouble(c, nil)
			}
			c.state, c.event = Asked, 0
			l.put(c)
		}
		return nil
	}
	l.erase(c) // nothing was applied for it, or another one goes on with the target
	if isOwner {
		return l.handOver(c)
	}
	return nil
}

// handOver gives the target of an owner that was removed to the claim behind it, and returns that
// claim, or nil.
func (l *ledger) handOver(from *claim) *claim {
	heir := from.place.owner()
	if heir == nil {
		return nil
	}
	// If the one before has not applied the target, this has the marks of an earlier owner. If it
	// was not even recorded, or was refused what is somebody else's, it has not.
	heir.former = from.former
	isForeign := from.isForeign() && from.place.open == 0
	if from.isRecorded && !isForeign && (from.former == nil || from.former.Rule == heir.asker.rule.id) {
		id := from.asker.id()
		heir.former = &id
	}
	l.put(heir)
	return heir
}

// release removes the claims of some source objects for which which returns true. It hands over
// only after that: a claim that goes, too, is no heir.
func (l *ledger) release(of []*asker, which func(*claim) bool, isRecorded bool) (heirs []*claim) {
	var owners []*claim // that were removed
	places := make(map[*place]struct{})
	for _, a := range of {
		for e := a.claims.Front(); e != nil; {
			c := e.Value
			e = e.Next()
			if !which(c) {
				continue
			}
			if _, ok := places[c.place]; !ok && c.isOwner() {
				places[c.place] = struct{}{}
				owners = append(owners, c)
			}
			if l.remove(c); isRecorded {
				l.deleteRow(c)
			}
		}
	}
	for _, c := range owners {
		if heir := l.handOver(c); heir != nil {
			heirs = append(heirs, heir)
		}
	}
	return heirs
}
