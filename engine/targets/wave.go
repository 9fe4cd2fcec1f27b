package targets

import (
	"strings"
	"time"
)

// Wave is one walk over everything that a source object asks for. A source object has one wave at a
// time; requests of an earlier one may still be under way. Make one with [Table.Begin]. A Wave is
// for one goroutine, but for its Attempts.
type Wave struct {
	table  *Table
	asker  Asker
	event  uint64
	number uint32

	isOver  bool     // asking is over
	prunes  bool     // see Asked
	unasked []*claim // see Thin

	asked     int  // targets asked for, guarded by table.mu like the fields below
	objects   int  // see Objects
	unclaimed int  // those for which there was no room
	lost      int  // those whose claims were released meanwhile
	isKept    bool // claims that do not own are recorded
}

// manyTargets is with how many targets a wave is long: then the next run is to know which were
// done.
const manyTargets = 64

// Begin begins a wave of a source object. event names what it is about: see [EventOf].
func (t *Table) Begin(a Asker, event uint64) *Wave {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waves++
	return &Wave{table: t, asker: a, event: event, number: t.waves}
}

// Ask notes that the wave asks for a target, once for each time that it does something to it. With
// owns, the claim owns. The table does not take a target that cannot exist, and none beyond
// [MaxClaims]: those wait. Ask is called within a cut. After [Wave.Asked] it is for a second walk
// that asks for everything again: what it asks for beyond the first one is done as well. isNew then
// says that the cut must be on disk before the target is tried.
func (w *Wave) Ask(at Target, owns bool) (isNew bool) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	l := &w.table.ledger
	c := l.find(w.asker, at)
	if !at.CanExist() || (c == nil || owns && !c.owns) && l.isFull(owns) {
		if !w.isOver {
			w.unclaimed++
		}
		return false
	}
	if c == nil {
		c = l.add(w.asker, at)
	}
	isFirst := c.wave != w.number
	if isFirst {
		c.wave, c.asks, c.repeats, c.hasFailed = w.number, 0, 0, false
		if !w.isDone(c) {
			c.did = 0
		}
		if w.asked++; w.asked > manyTargets {
			w.isKept = true
		}
		if at.isObject() {
			w.objects++
		}
	}
	if w.isOver && c.repeats < c.asks {
		c.repeats++
	} else {
		w.addTo(c)
	}
	if c.place.version != at.Resource.Version {
		c.place.version = strings.Clone(at.Resource.Version)
	}
	if owns && !c.owns {
		l.deleteRow(c) // it is recorded as one that owns later
		c.isRecorded = false
		l.own(c, false)
	}
	return w.isOver && l.confirm(c)
}

// Objects returns for how many targets the wave has asked that are objects, or the status of one.
func (w *Wave) Objects() int {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return w.objects
}

// isDone reports whether what the wave does to a target is done, as far as is known by now.
func (w *Wave) isDone(c *claim) bool { return c.state == Done && c.event == w.event }

// addTo notes that the wave does something to a target once more.
func (w *Wave) addTo(c *claim) {
	c.asks++
	if w.isOver {
		c.repeats = c.asks
	}
	if !w.isDone(c) || c.did >= c.asks {
		return
	}
	c.state, c.event = Asked, 0
	if !w.isOver {
		c.did = 0 // the wave does all of it, in order
	}
	if c.isRecorded {
		w.table.ledger.put(c)
	}
}

// confirm has the table count on a claim that a wave asks for. It reports whether that is recorded
// now and was not before.
func (l *ledger) confirm(c *claim) (isNew bool) {
	wasRecorded := c.isRecorded
	if c.isDropped {
		c.isDropped = false
		l.reset(c)
		l.put(c)
	}
	l.takeOver(c)
	if c.owns && !c.isRecorded {
		l.put(c)
	}
	return c.owns && !wasRecorded
}

// Thin drops n of the claims that Asked would drop and that own nothing, if there are more than
// that, so that Asked is quick. It reports whether it did. Once everything was asked for, it is
// called within cuts until it returns false.
func (w *Wave) Thin(n int) bool {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	l := &w.table.ledger
	if w.unasked == nil {
		of := l.asker(w.asker)
		if of == nil {
			return false
		}
		for e := of.claims.Front(); e != nil; e = e.Next() {
			if c := e.Value; !c.owns && c.wave != w.number {
				w.unasked = append(w.unasked, c)
			}
		}
	}
	if len(w.unasked) <= n {
		return false
	}
	for _, c := range w.unasked[:n] {
		if !c.isGone { // as if the rule is gone meanwhile
			l.erase(c)
		}
	}
	w.unasked = w.unasked[n:]
	return true
}

// Asked ends the asking. What the source object asked for earlier, and not in this wave, is
// dropped: claims that own only if the wave prunes. heirs are the claims of others that have a
// target now. The targets of dropped are to be deleted. isNew says that the cut must be on disk
// before the first target is tried. Asked is called within a cut, and not if it is unknown what the
// source object asks for.
func (w *Wave) Asked(prunes bool) (dropped, heirs []Claim, isNew bool) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	l := &w.table.ledger
	w.isOver, w.prunes, w.unasked = true, prunes, nil
	of := l.asker(w.asker)
	if of == nil {
		return nil, nil, false
	}
	var inherit []*claim
	for e := of.claims.Front(); e != nil; {
		c := e.Value
		e = e.Next()
		switch {
		case c.wave == w.number:
			isNew = l.confirm(c) || isNew
		case !c.owns:
			l.erase(c)
		case prunes:
			if heir := l.drop(c); heir != nil {
				inherit = append(inherit, heir)
			} else if !c.isGone {
				c.hasFailed = false
				dropped = append(dropped, c.view())
			}
		}
	}
	return dropped, awake(inherit), isNew
}

// Attempt is one request for a target.
type Attempt struct {
	// Claim is what is tried, as it was before. For the verdict [Refuse], it is the claim that has
	// the target: that of another source object, or this one if it was refused itself.
	Claim Claim

	wave    *Wave
	claim   *claim
	owns    bool
	deletes bool
}

// Try says what to do about a target now that the wave has asked for. Only for the verdict [Try],
// the attempt must be settled. If its Claim has a Former, the cut that handed the target over must
// be on disk before the request. The Claim is zero if the table had no room for it, or if it has
// gone since.
func (w *Wave) Try(at Target, now time.Time) (Attempt, Verdict) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	c := w.table.ledger.find(w.asker, at)
	if c == nil || c.wave != w.number {
		if w.unclaimed == 0 {
			w.lost++
		}
		return Attempt{}, Wait
	}
	return w.try(c, now)
}

// TryDropped says what to do about a target now that is to be deleted, as Try does. It is to be
// skipped if another source object has it by now, or if this one asks for it again.
func (w *Wave) TryDropped(at Target, now time.Time) (Attempt, Verdict) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	c := w.table.ledger.find(w.asker, at)
	if c == nil || !c.isDropped {
		return Attempt{}, Skip
	}
	return w.try(c, now)
}

// try begins an attempt at a claim, if now is the time for it. The table's lock is held.
func (w *Wave) try(c *claim, now time.Time) (Attempt, Verdict) {
	verdict := w.judge(c, now)
	a := Attempt{Claim: c.view(), wave: w, claim: c, owns: c.owns, deletes: c.isDropped}
	switch {
	case verdict == Try:
		c.isOpen = true
		if c.owns {
			c.place.open++
		}
	case verdict == Refuse && c.owns && !c.isOwner():
		a.Claim = c.place.owner().view()
	}
	return a, verdict
}

// judge returns what to do about a claim. The table's lock is held.
func (w *Wave) judge(c *claim, now time.Time) Verdict {
	switch {
	case c.owns && !c.isOwner() && c.place.owner().isDropped:
		return Wait
	case c.owns && !c.isOwner():
		return Refuse
	case c.isOpen || c.owns && c.place.open > 0:
		return Wait
	case w.isDone(c):
		return Skip
	case c.state == Refused && c.event == w.event:
		return Refuse
	case c.state == Waits && (c.trouble.isAfter(now) || c.hasFailed):
		return Wait
	}
	return Try
}

// Settle notes what came of the attempt. If another claim can be tried now, Settle returns it: it
// waited for this request to end. The claim may be of the same source object, which asks for
// something else since. Settle is called within a cut.
func (a Attempt) Settle(o Outcome, now time.Time) (next *Claim) {
	t := a.wave.table
	t.mu.Lock()
	defer t.mu.Unlock()
	l, c, p := &t.ledger, a.claim, a.claim.place
	c.isOpen = false
	if a.owns {
		p.open--
	}
	isMeant := !c.isGone && c.isDropped == a.deletes && (!c.owns || c.isOwner())
	if isMeant {
		a.settle(l, o, now)
	}
	l.tidy(p)
	owner := p.owner()
	if owner != nil && c.isGone && a.owns && !a.deletes && o.State == Done {
		id := c.asker.id() // the target has its marks now
		owner.former = &id
		l.put(owner)
	}
	if owner != nil && owner.isDropped && p.open == 0 && p.hasHeir() {
		l.erase(owner) // the heir asked while this request was under way
		owner = l.handOver(owner)
	}
	if owner == nil || p.open > 0 || owner.state != Asked || owner == c && isMeant {
		return nil
	}
	v := owner.view()
	return &v
}

// settle notes the outcome of a claim that still wants it.
func (a Attempt) settle(l *ledger, o Outcome, now time.Time) {
	c, w := a.claim, a.wave
	if o.State == Done && a.deletes {
		l.erase(c)
		return
	}
	var why *trouble
	if o.State != Done || o.Cause != "" {
		why = &trouble{cause: clipped(o.Cause, maxCause), reason: clipped(o.Reason, maxReason)}
	}
	if o.State != Done {
		why.failures = 1
		if c.trouble != nil {
			why.failures += c.trouble.failures
		}
	}
	switch o.State {
	case Done:
		isOther := c.state == Done && c.event != w.event
		c.state, c.event, c.former = Done, w.event, nil
		switch isLate := c.wave != w.number; {
		case isLate && c.asks > 1: // a newer wave does all of it
			c.did = 0
		case isLate, isOther:
			c.did = 1
		case c.did < didAll:
			c.did++
		}
		if c.did < c.asks {
			c.state, c.event = Asked, 0
		}
	case Waits:
		why.due = w.table.due(c.asker.id(), why.failures, o.After, now)
		c.state, c.event, c.hasFailed = Waits, 0, true
	case Refused:
		c.state, c.event = Refused, w.event
	default:
		return
	}
	l.setTrouble(c, why)
	w.record(l, c)
}

// record records a claim that was settled, if it is to be kept.
func (w *Wave) record(l *ledger, c *claim) {
	switch {
	case c.owns || c.isRecorded || w.isKept:
		l.put(c)
	case c.state == Waits || c.state == Refused:
		// What was done before is not to be repeated with this one.
		w.isKept = true
		of := c.asker
		for e := of.claims.Front(); e != nil; e = e.Next() {
			if c := e.Value; !c.owns && !c.isRecorded && c.wave == w.number && c.state != Asked {
				l.put(c)
			}
		}
	}
}

// clipped returns the first bytes of a text, without a part of a character at the end.
func clipped(text string, most int) string {
	if len(text) <= most {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:most], "")
}

// Left returns what remains to be done for the source object after the wave.
func (w *Wave) Left(now time.Time) Left {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	left := Left{Asked: w.asked + w.unclaimed, Waits: w.unclaimed + w.lost}
	wait := func(until time.Time) {
		if until.Before(now) {
			until = now
		}
		if left.Due.IsZero() || until.Before(left.Due) {
			left.Due = until
		}
	}
	if w.unclaimed > 0 {
		wait(now.Add(maxDelay))
	}
	if w.lost > 0 {
		wait(now.Add(minDelay))
	}
	of := w.table.ledger.asker(w.asker)
	if of == nil {
		return left
	}
	var waiting []Claim
	for e := of.claims.Front(); e != nil; e = e.Next() {
		c := e.Value
		if c.wave != w.number && !(c.isDropped && w.prunes) {
			continue
		}
		switch w.judge(c, now) {
		case Try:
			if c.state == Waits { // it has come due
				left.Waits++
				wait(c.trouble.due)
			} else {
				left.Untried++
			}
		case Wait:
			left.Waits++
			if until := now.Add(minDelay); c.state != Waits || c.isOpen {
				wait(until)
			} else {
				wait(c.trouble.due)
			}
			if len(waiting) < maxSome {
				waiting = append(waiting, c.view())
			}
		case Refuse:
			left.Refused++
			if len(left.Some) < maxSome {
				left.Some = append(left.Some, c.view())
			}
		}
	}
	left.Some = append(left.Some, waiting[:min(len(waiting), maxSome-len(left.Some))]...)
	return left
}

// maxSome is how many claims Left names.
const maxSome = 3
