package source

import (
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/timing"
)

// Consumer takes the steps of one informer. Calls for one informer never overlap and keep the
// server's order. The informer waits while a call runs, so a call must not block for long. A call
// must not Visit or Stop the same informer. The informer counts a panic, and treats the step as
// taken.
type Consumer interface {
	// Take takes one step. A consumer that records steps must record a whole step at once.
	Take(Step)
	// CaughtUp is called once, between two steps. By then the consumer has taken everything that
	// the server had when the informer began, or the resource is gone in all versions. known
	// yields the objects that exist, as the cache holds them now. It is valid until CaughtUp
	// returns.
	CaughtUp(known iter.Seq[*object.Object])
	// Tick does what is due by now, for a fraction of a millisecond, and returns when to call it
	// again; the zero time means when [Informer.Wake] is called. get returns an object that the
	// consumer knows, or nil. The first call comes after CaughtUp.
	Tick(now time.Time, get func(key string) *object.Object) (again time.Time)
	// Round is called when a round has begun, and again when the consumer has taken all its steps.
	// number is that of the round's deltas.
	Round(of timing.Timetable, number int64, isOver bool)
	// Holds reports whether an object of a round has to wait. The informer then asks again a second
	// later, and meanwhile hands over the others, and what comes in between.
	Holds(of timing.Timetable, key string) bool
	// Handed is called when the consumer has taken all steps of a round, or holds them.
	Handed(of timing.Timetable)
}

// Step is one step of an informer: a change of one object, a move of its position, or both.
type Step struct {
	// Delta is the change. Its Object is nil if the step only moves the position.
	Delta delta.Delta
	// Tree is Delta.Object decoded to at least the informer's view (see Informer.Keep), or nil if
	// no decoded form is available. It is read-only. The informer reuses its memory after Take
	// returns.
	Tree any
	// Saved is set if another run saved only a part of the object (see Saved.Partial), and the
	// object came back or is gone. If it came back, Delta is Synced, whether or not the
	// resourceVersion changed. If it is gone, Delta is Deleted and Delta.Object is Saved.
	Saved *object.Object
	// Round is the timetable of the round that the step belongs to. Such a step is only for rules
	// with that timetable and is never recorded. nil means that the step is for all rules.
	Round timing.Timetable
	// Gap says that the delta comes from a list, and not from a watch. The object may have changed
	// several times since Delta.Old.
	Gap bool
	// Withdrawn says that all objects count as deleted from the next step on, because the cluster
	// serves no version of the resource. They may come back as they were.
	Withdrawn bool
	// Moved reports whether Position is set.
	Moved bool
	// Position is the resourceVersion from which another run can go on after this step. It is empty
	// while the consumer takes a list, because another run would have to list too.
	Position string
}

// Before returns the step's object as the consumer knew it before the step, or nil if it did not.
func (s Step) Before() *object.Object {
	if s.Delta.Old == nil && s.Delta.Type == delta.Deleted {
		return s.Delta.Object
	}
	return s.Delta.Old
}

// IsNew reports whether the consumer did not know the step's object before the step.
func (s Step) IsNew() bool {
	return s.Delta.Object != nil && s.Round == nil && s.Saved == nil && s.Before() == nil
}

// Consume sets the consumer, and the timetables of the rounds in which it takes every object as
// Synced. Rounds begin once the informer has caught up. Call Consume at most once, before the
// informer runs. Without a consumer, or with a nil one, the informer only maintains its cache.
func (i *Informer) Consume(c Consumer, rounds ...timing.Timetable) {
	i.feed.consume(c, rounds)
}

// LastRound sets the last round of a timetable that another run has begun. If that run did not get
// to its end, there is the same round once more. Otherwise a round that should have begun meanwhile
// begins once the informer has caught up. Call LastRound after Consume, before the informer runs.
func (i *Informer) LastRound(of timing.Timetable, number int64, isOver bool) {
	i.feed.lastRound(of, number, isOver)
}

// NextRound returns when the next round of a timetable begins, or the zero time if none does.
func (i *Informer) NextRound(of timing.Timetable) time.Time { return i.feed.nextRound(of) }

// Restore makes the informer resume from the state that another run saved. Its consumer knows the
// saved objects and takes only later changes. Call Restore at most once, before the informer runs.
//
// The informer then follows the server from the saved resourceVersion. That fails if the server has
// no history that far back, or does not know that resourceVersion yet. In that case the informer
// compares a list with the saved objects. It reports additions, updates with the old state, and
// deletions with the last known state.
func (i *Informer) Restore(saved Saved) {
	i.feed.restore(saved)
	i.hasFollowed = saved.HasFollowed || saved.ResourceVersion != ""
	if len(saved.Objects) > 0 || i.hasFollowed {
		saved.Objects = slices.Clone(saved.Objects)
		i.saved = &saved
	}
}

// Wake has the consumer's Tick called soon. It may be called from the consumer.
func (i *Informer) Wake() { i.feed.wake() }

// Look calls look between two steps, with a function that finds the objects which the consumer knows.
func (i *Informer) Look(look func(get func(key string) *object.Object)) { i.feed.look(look) }

// Visit calls f between two steps, with the objects that the consumer knows. known is valid until f
// returns. Neither f nor a consumer may call Visit.
func (i *Informer) Visit(f func(known iter.Seq[*object.Object])) { i.feed.visit(f) }
