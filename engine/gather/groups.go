// Package gather keeps the changes of a rule with groups until the event of their group is made.
//
// [Groups] decides which changes make one event, and when. It is pure: it knows no clock, no timer,
// no lock and no queue. Its user passes the time, asks with [Groups.Due] when the next event is due,
// and then calls [Groups.Emit], which hands the events to an [Outlet].
//
// A group has another event only once its last delivery has ended. Meanwhile it gathers on. So it
// never has more than one delivery in the outlet, and its events are in order.
package gather

import (
	"cmp"
	"slices"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

// The bounds of one event.
const (
	MaxItems      = 1000
	MaxItemsBytes = 4 << 20
)

const (
	// maxEvents bounds how many events Emit makes, before other changes are let in.
	maxEvents = 100
	// busyFor is the time after which a group looks again whether its last delivery has ended, in
	// case Ended was not called.
	busyFor = 30 * time.Second
)

// Options say how a rule's changes are gathered. The functions must not call the Groups.
type Options struct {
	// Wait is the time from the first change of a group to its event, and Every the least time
	// between two events of a group.
	Wait, Every time.Duration
	// Bounds hold for what waits, over all groups.
	Bounds
	// KeepsEach keeps the changes of one object apart while the Bounds hold. Otherwise those in a
	// group are merged.
	KeepsEach bool
	// Merge decides what becomes of a newer change behind a waiting one of the same object, as that
	// of a queue does.
	Merge func(waiting, newer delivery.Delivery, sent bool) (merged delivery.Delivery, keep, ok bool)
	// Dropped is called for a change that is dropped because of the Bounds.
	Dropped func(*delivery.Delivery)
	// Records records each change that waits. nil records nothing.
	Records Records
	// Remember records the last event of a group, and Forget drops that record. They may be nil.
	Remember func(rule.Group, LastEvent)
	Forget   func(rule.Group)
}

// Records keeps a record of each change that waits.
type Records interface {
	// Put records a change under its number, in place of what the number had before.
	Put(*Change)
	// Delete drops the record of a change.
	Delete(*Change)
}

// LastEvent describes the last event of a group.
type LastEvent struct {
	At  time.Time // when it was made
	Key delta.Key // of its delivery
}

// Outlet receives the events of groups.
type Outlet interface {
	// Resolve finds out who made a change with a Version, and then clears that. isOwn means that the
	// rule made the change, so no event has it. wait is positive if nobody knows yet: the group asks
	// again after that time.
	Resolve(*delivery.Delivery) (isOwn bool, wait time.Duration)
	// IsFull reports whether as much waits in the outlet as may. Then Emit makes no event.
	IsFull() bool
	// Holds reports whether a delivery of an object has not ended.
	Holds(delta.Key) bool
	// AddSince takes a delivery whose first change came at a time.
	AddSince(key delta.Key, d delivery.Delivery, since time.Time)
}

// Groups are the groups of one rule, with the changes that wait for their events. They are not safe
// for concurrent use. Changes of groups and of their records belong to one change of the journal.
type Groups struct {
	opts     Options
	calendar calendar
	groups   map[rule.Group]*group
	changes  changes
	busy     map[delta.Key][]rule.Group // groups that wait for the end of a delivery of an object
	stats    Stats                      // only what is counted: see Stats
}

// group is what one group has gathered, and when its last event was made.
type group struct {
	id       rule.Group
	changes  list
	since    time.Time // when the first of them came
	hadEvent bool
	made     int64 // when its last event was made, as in calendar
	key      delta.Key
	isBusy   bool // is in Groups.busy
}

// New returns Groups without any. now is the time, with a monotonic reading if the clock has one.
// Records have numbers above number.
func New(o Options, now time.Time, number uint64) *Groups {
	o.MaxGroups = cmp.Or(o.MaxGroups, defaultMaxGroups)
	return &Groups{
		opts: o, calendar: calendar{origin: now},
		groups: make(map[rule.Group]*group), changes: newChanges(o.Bounds, o.Records, number),
		busy: make(map[delta.Key][]rule.Group),
	}
}

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

// group returns the group with an id. It adds the group if there is none.
func (g *Groups) group(id rule.Group) *group {
	of := g.groups[id]
	if of == nil {
		of = &group{id: id}
		g.groups[id] = of
	}
	return of
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
	g.changes.replace(last, merged)
	of.changes.MoveToBack(last.at)
	g.changes.unrecord(last) // a restart puts changes in the order of their numbers
	g.changes.record(last)
	return true
}

// schedule sets when a group's event is made, or when the group is forgotten if it has gathered
// nothing.
func (g *Groups) schedule(of *group) {
	next := of.made + millis(g.opts.Every)
	if of.changes.Len() == 0 {
		g.calendar.drop(of.id)
		if !of.hadEvent {
			delete(g.groups, of.id)
			return
		}
		g.calendar.forget(of.id, next)
		return
	}
	at := g.calendar.millis(of.since.Add(g.opts.Wait))
	if of.hadEvent {
		at = max(at, next)
	}
	g.calendar.emit(of.id, at)
}

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

// restart makes the first change that is left the one from which the group's time counts.
func (of *group) restart() {
	if first := of.changes.first(); first != nil {
		of.since = first.Since
	}
}

// take returns what the next event of a group has, oldest first. It drops changes that the rule made
// itself. wait is positive if nobody knows yet who made one of them.
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

// forget forgets a group that has nothing.
func (g *Groups) forget(id rule.Group) {
	g.calendar.drop(id)
	delete(g.groups, id)
	if g.opts.Forget != nil {
		g.opts.Forget(id)
	}
}

// Adopt puts older changes in front of those that have come since.
func (g *Groups) Adopt(older []*Change) {
	slices.SortFunc(older, func(a, b *Change) int { return cmp.Compare(a.N, b.N) })
	newer := make(map[rule.Group][]*Change)
	for _, c := range older {
		if of := g.groups[c.Group]; of != nil && newer[c.Group] == nil {
			newer[c.Group] = g.changes.empty(of)
		}
	}
	for _, c := range older {
		g.add(c)
	}
	for _, all := range newer {
		for _, c := range all {
			g.add(c)
		}
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
