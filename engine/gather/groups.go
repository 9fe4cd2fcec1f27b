// Package gather keeps the changes of a rule with groups until the event of their group is made.
//
// [Groups] decides which changes make one event, and when. It is pure: it knows no clock, no timer,
// no lock and no queue. Its user passes the time, asks with [Groups.Due] when the next event is
// due, and then calls [Groups.Emit], which hands the events to an [Outlet].
//
// A group has another event only once its last delivery has ended. Meanwhile it gathers on. So it
// never has more than one delivery in the outlet, and its events are in order.
package gather

import (
	"cmp"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
)

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

// group returns the group with an id. It adds the group if there is none.
func (g *Groups) group(id rule.Group) *group {
	of := g.groups[id]
	if of == nil {
		of = &group{id: id}
		g.groups[id] = of
	}
	return of
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

// forget forgets a group that has nothing.
func (g *Groups) forget(id rule.Group) {
	g.calendar.drop(id)
	delete(g.groups, id)
	if g.opts.Forget != nil {
		g.opts.Forget(id)
	}
}

// forgetSome forgets some groups beyond the bound, at least as many as Add adds. Their last
// delivery may still wait: an object that is always busy must not keep all groups that it ever had.
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
