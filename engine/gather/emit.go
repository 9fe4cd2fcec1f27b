package gather

import (
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/timing"
)

const (
	// maxEvents bounds how many events Emit makes, before other changes are let in.
	maxEvents = 100
	// busyFor is the time after which a group looks again whether its last delivery has ended, in
	// case Ended was not called.
	busyFor = 30 * time.Second
	// restFor is how long no event is made after the outlet was found to be full, or all groups
	// busy.
	restFor = time.Second
)

// Due returns when Emit has something to do. ok is false if it has nothing to do. The time may have
// passed.
func (g *Groups) Due(now time.Time) (at time.Time, ok bool) {
	next, ok := g.calendar.first()
	if !ok {
		return time.Time{}, false
	}
	if g.changes.isFull(0, 0) {
		next = min(next, g.calendar.now(now)) // early: see bounds.go
	}
	return g.calendar.time(max(next, g.calendar.resting)), true
}

// Emit hands the events of the groups that are due to an outlet, and forgets groups that have
// nothing. It makes a bounded number of events: if more are due, so is Emit.
func (g *Groups) Emit(at time.Time, to Outlet) {
	now := g.calendar.now(at)
	g.emitSome(at, to)
	g.forgetSome()
	for range maxEvents {
		id, end, ok := g.calendar.firstIdle()
		if !ok || end > now {
			return
		}
		if g.waits(g.groups[id], to) {
			g.calendar.forget(id, now+millis(busyFor))
		} else {
			g.forget(id)
		}
	}
}

// emitSome makes the events of groups that are due, and of others as long as the groups are full.
// If it gets nowhere, no event is made for a while.
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
	_, due, ok := g.calendar.firstDue()
	if made == 0 && ok && (due <= now || g.changes.isFull(0, 0)) {
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

// emit makes one event of the changes of a group, and reports whether the group has less now.
func (g *Groups) emit(of *group, at time.Time, to Outlet) bool {
	now := g.calendar.now(at)
	if g.waits(of, to) {
		g.calendar.emit(of.id, now+millis(busyFor))
		return false
	}
	taken, wait := g.take(of, to)
	switch {
	case wait > 0:
		g.calendar.emit(of.id, now+millis(wait))
		return false
	case len(taken) == 0:
		g.schedule(of)
		return true
	}
	newest := taken[len(taken)-1]
	d, since := newest.Value, newest.Since
	for _, c := range taken {
		g.changes.remove(of, c)
		since = timing.Earlier(since, c.Since)
		if c != newest {
			d.Items = append(d.Items, delivery.Item{
				Delta: c.Value.Delta, Payload: c.Value.Payload,
				Stale: c.Value.Stale, Undecided: c.Value.Undecided,
			})
		}
	}
	key := newest.key()
	to.AddSince(key, d, since)
	of.hadEvent, of.made, of.key = true, now, key
	if g.opts.Remember != nil {
		g.opts.Remember(of.id, LastEvent{At: at, Key: key})
	}
	of.restart()
	g.schedule(of)
	return true
}

// take returns what the next event of a group has, oldest first. It drops changes that the rule
// made itself. wait is positive if nobody knows yet who made one of them.
func (g *Groups) take(of *group, to Outlet) (taken []*Change, wait time.Duration) {
	bytes := int64(0)
	for c := of.changes.first(); c != nil && len(taken) < MaxItems; {
		next := c.next()
		if c.Value.Version != "" {
			isOwn, wait := to.Resolve(&c.Value)
			switch {
			case wait > 0:
				return nil, wait
			case isOwn:
				g.changes.remove(of, c)
				c = next
				continue
			}
		}
		if bytes += sent(&c.Value); bytes > MaxItemsBytes && len(taken) > 0 {
			break
		}
		taken = append(taken, c)
		c = next
	}
	return taken, 0
}

// sent returns about how many bytes a handler gets of a delivery.
func sent(d *delivery.Delivery) int64 {
	const overhead = 512
	size := overhead + len(d.Payload)
	if d.Payload == nil {
		size += d.Delta.Object.Length()
		if d.Delta.Old != nil {
			size += d.Delta.Old.Length()
		}
	}
	return int64(size)
}

// waits reports whether a group's last delivery has not ended. Then Ended schedules the group once
// it has.
func (g *Groups) waits(of *group, to Outlet) bool {
	if !of.hadEvent || !to.Holds(of.key) {
		return false
	}
	if !of.isBusy {
		of.isBusy = true
		g.busy[of.key] = append(g.busy[of.key], of.id)
	}
	return true
}

// Ended notes that a delivery of an object has ended. It returns false if no group waits for that.
func (g *Groups) Ended(key delta.Key) bool {
	waiting := g.busy[key]
	if len(waiting) == 0 {
		return false
	}
	delete(g.busy, key)
	g.calendar.resting = 0
	for _, id := range waiting {
		if of := g.groups[id]; of != nil {
			of.isBusy = false
			g.schedule(of)
		}
	}
	return true
}
