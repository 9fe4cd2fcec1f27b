package dispatch

import "github.com/informd/informd/engine/gather"

// Succeed makes a lane that takes the place of old, with other options, and perhaps at another
// Dispatcher or under another name of the rule. It is for a rule that changes while it runs. Both
// lanes have one queue, so nothing moves, and the order per object stays:
//
//   - What waits is delivered by the new lane.
//   - What is in flight ends as it began, with the options of old and at its Dispatcher. If it has
//     to be repeated, the new lane does that. It also goes on with the rule's own actions, of which
//     old begins no more. Later changes of the object wait for what is in flight.
//
// The new lane is held if isHeld says so: see Hold. Both are paused, or none: see Pause. What old
// has gathered comes in the groups of the new lane, or one by one if it has none. For that,
// Options.Gathering must be set if old gathers, and say Ends if the rule has no group any more. The
// Store must have the records of old's.
//
// old takes nothing more; what it is offered goes on to the new lane. Succeed must not be called
// within the Journal's Begin and End, and once per lane at most.
func (d *Dispatcher) Succeed(old *Lane, rule string, o LaneOptions, isHeld bool) *Lane {
	l := d.newLane(naming{rule: rule, resource: old.naming.resource}, o, old.shared)
	l.turn.isHeld = isHeld
	l.queue = old.queue
	if o.Gathering != nil {
		l.beginGathering(*o.Gathering)
	}
	l.reports.failed.Store(old.reports.failed.Load())
	from := old.dispatcher

	var left *gather.Legacy
	within(d.opts.Journal, func() {
		takeOver := func() { l.shared.present.Store(l) }
		if old.gathering() != nil && l.gathering() != nil {
			left = old.gathering().bequeath(l.gathering(), takeOver)
		} else {
			takeOver()
		}
		from.mu.Lock()
		old.turn.isSucceeded = true
		held := from.suspects.giveUp(old)
		from.mu.Unlock()
		l.naming.former = old.naming.former
		if rule != old.naming.rule {
			l.Rename(old.naming.rule) // neither lane takes anything now
			if o.Renamed != nil {
				o.Renamed(l.naming.former)
			}
		}
		l.queue.Reconfigure(l.queueOptions())
		for _, j := range held {
			l.queue.Postpone(j.item.Key, j.item.Value, 0)
		}
	})
	if left != nil {
		l.gathering().inherit(left, &old.gathering().opts)
	}
	return l
}
