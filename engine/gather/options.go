package gather

import (
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/rule"
)

// The bounds of one event.
const (
	MaxItems      = 1000
	MaxItemsBytes = 4 << 20
)

// Options say how a rule's changes are gathered. The functions must not call the Groups.
type Options struct {
	// Wait is the time from the first change of a group to its event, and Every the least time
	// between two events of a group.
	Wait, Every time.Duration
	// Bounds limit what waits in all groups together.
	Bounds
	// KeepsEach keeps the changes of one object apart while the Bounds hold. Otherwise those in a
	// group are merged.
	KeepsEach bool
	// Merge decides what becomes of a newer change behind a waiting one of the same object, as that
	// of a queue does.
	Merge func(waiting, newer delivery.Delivery, sent bool) (
		merged delivery.Delivery, keep, ok bool,
	)
	// Dropped is called for a change that is dropped because of the Bounds.
	Dropped func(*delivery.Delivery)
	// Records records each change that waits. nil records nothing.
	Records Records
	// Remember records the last event of a group, and Forget drops that record. They may be nil.
	Remember func(rule.Group, LastEvent)
	Forget   func(rule.Group)
}

// Bounds hold over all groups, whoever makes the groups and however long they wait. Past MaxItems
// and MaxBytes
//
//   - changes of one object merge, even if they are of different groups. The result is of the group
//     of the newest one, and as old as the oldest. So each object adds one change at most, or
//     MaxPerObject if they do not merge.
//   - events of groups are made early, the first that is due first, as fast as the outlet takes
//     them.
//
// Past MaxGroups, groups are forgotten that have nothing and are remembered because of Every; first
// those that would be forgotten first anyway. Their next event may come early.
//
// No event is made while the outlet is full. So a handler that takes nothing does not move what is
// gathered to the queue, where nothing merges.
type Bounds struct {
	MaxItems     int
	MaxBytes     int64
	MaxPerObject int
	MaxGroups    int // 0 means 100,000
}

const defaultMaxGroups = 100_000

// Records keeps a record of each change that waits.
type Records interface {
	// Put records a change under its number. It replaces an earlier record with that number.
	Put(*Change)
	// Delete drops the record of a change.
	Delete(*Change)
}

// Outlet receives the events of groups.
type Outlet interface {
	// Resolve finds out who made a change with a Version, and then clears that. isOwn means that
	// the rule made the change, so no event has it. wait is positive if nobody knows yet: the group
	// asks again after that time.
	Resolve(*delivery.Delivery) (isOwn bool, wait time.Duration)
	// IsFull reports whether as much waits in the outlet as may. Then Emit makes no event.
	IsFull() bool
	// Holds reports whether a delivery of an object has not ended.
	Holds(delta.Key) bool
	// AddSince takes a delivery whose first change came at a time.
	AddSince(key delta.Key, d delivery.Delivery, since time.Time)
}

// LastEvent describes the last event of a group.
type LastEvent struct {
	At  time.Time // when it was made
	Key delta.Key // of its delivery
}

// Stats describes what Groups hold.
type Stats struct {
	Items  int // changes that wait
	Bytes  int64
	Groups int
	Next   time.Time // when the first event is made; the zero time if none is
	// Lost counts changes that were merged or dropped because of a bound, and Forgotten groups that
	// were forgotten too early because of one.
	Lost, Forgotten uint64
}
