package dispatch

import (
	"time"

	"github.com/informd/informd/engine/rule"
)

// Succeed makes a lane that takes the place of old, with other options, and perhaps at another
// Dispatcher or under another name of the rule. It is for a rule that changes while it runs. Both
// lanes have one queue, so nothing moves, and the order per object stays:
//
//   - What waits is delivered by the new lane.
//   - What is in flight ends as it began, with the options of old and at its Dispatcher. If it has
//     to be repeated, the new lane does that. Later changes of its object wait for it.
//
// The new lane is held if isHeld says so: see Hold. Both are paused, or none: see Pause. What old has
// gathered comes in the groups of the new lane, or one by one if it has none. For that,
// Options.Gathering must be set if old gathers, and say Ends if the rule has no group any more. The
// Store must have the records of old's.
//
// old takes nothing more; what it is offered goes on to the new lane. Succeed must not be called
// within the Journal's Begin and End, and once per lane at most.
func (d *Dispatcher) Succeed(old *Lane, rule string, o LaneOptions, isHeld bool) *Lane {
	l := d.newLane(rule, old.resource, o)
	l.isHeld = isHeld
	l.queue, l.owned, l.acted = old.queue, old.owned, old.acted
	l.isPaused, l.present = old.isPaused, old.present
	l.failed.Store(old.failed.Load())
	from := old.dispatcher

	var inherited *inheritance
	d.journal(func() {
		if old.gathering() != nil && l.gathering() != nil {
			inherited = old.gathering().bequeath(l.gathering())
		} else {
			l.present.Store(l)
		}
		from.mu.Lock()
		old.isSucceeded = true
		held := from.suspects.giveUp(old)
		from.mu.Unlock()
		l.former = old.former
		if rule != old.rule {
			l.Rename(old.rule) // neither lane takes anything now
			if o.Renamed != nil {
				o.Renamed(l.former)
			}
		}
		l.queue.Reconfigure(l.queueOptions())
		for _, j := range held {
			l.queue.Postpone(j.item.Key, j.item.Value, 0)
		}
	})
	if inherited != nil {
		l.gathering().inherit(inherited, &old.gathering().opts)
	}
	return l
}

// newest returns the lane that has taken the place of l, or l.
func (l *Lane) newest() *Lane { return l.present.Load() }

// inheritance is what a gathering leaves to that of the lane's successor.
type inheritance struct {
	changes []*gathered
	told    map[rule.Group]Told
}

// bequeath closes g, and has offers go to the heir's lane. It returns what g has in memory, and
// hands over what only the store has. The heir makes no event until inherit is called. It is called
// within the Journal's Begin and End.
func (g *gathering) bequeath(heir *gathering) *inheritance {
	g.mu.Lock()
	defer g.mu.Unlock()
	heir.mu.Lock()
	defer heir.mu.Unlock()
	left := &inheritance{told: make(map[rule.Group]Told)}
	now := g.lane.dispatcher.opts.Clock.Now()
	for id, of := range g.groups {
		for e := of.changes.Front(); e != nil; e = e.Next() {
			left.changes = append(left.changes, e.Value.(*gathered))
		}
		if of.wasTold {
			since := time.Duration(g.now()-of.told) * time.Millisecond
			left.told[id] = Told{At: now.Add(-since), Key: of.key}
		}
	}
	heir.number, heir.lost, heir.doubt = g.number, g.lost, g.doubt
	heir.origin = g.origin // what was loaded has no monotonic reading: clocks may have been set since
	heir.unloaded, heir.restored, heir.inherits = g.unloaded, g.restored, true
	g.shut()
	g.lane.present.Store(heir.lane) // before an offer can find g closed
	return left
}

// inherit takes over what the gathering of the lane before, with these options, has left.
func (g *gathering) inherit(left *inheritance, before *Gathering) {
	isSame := !before.Ends && !g.opts.Ends && before.By == g.opts.By
	for _, c := range left.changes {
		if !isSame && !g.opts.Ends {
			c.group = g.opts.Of(c.value.Delta)
		}
	}
	g.lane.dispatcher.journal(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for id, told := range left.told {
			switch {
			case isSame:
				g.wasTold(id, told)
			case before.Forget != nil:
				before.Forget(id)
			}
		}
		g.inherits = false
		g.adopt(left.changes)
		g.arm()
	})
}
