package gather

import (
	"iter"
	"time"

	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

// calendar holds when groups have their turn. Its times are milliseconds since its origin.
type calendar struct {
	origin time.Time      // has a monotonic reading if the clock has one
	due    timing.Waiting // groups with changes, until their event; by the bytes of their ids
	idle   timing.Waiting // the others, which are forgotten when a next event might come
	// resting is the time before which no event is made.
	resting int64
}

// millis returns d in milliseconds, rounded up.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// millis returns a time of the calendar, rounded up.
func (c *calendar) millis(t time.Time) int64 { return millis(t.Sub(c.origin)) }

// now returns a time of the calendar that is never later than t.
func (c *calendar) now(t time.Time) int64 { return t.Sub(c.origin).Milliseconds() }

func (c *calendar) time(at int64) time.Time {
	return c.origin.Add(time.Duration(at) * time.Millisecond)
}

// emit sets when the event of a group is made.
func (c *calendar) emit(id rule.Group, at int64) {
	c.idle.Delete(string(id[:]))
	c.due.Put(string(id[:]), at)
}

// forget sets when a group is forgotten, which has no changes.
func (c *calendar) forget(id rule.Group, at int64) {
	c.due.Delete(string(id[:]))
	c.idle.Put(string(id[:]), at)
}

// drop removes a group.
func (c *calendar) drop(id rule.Group) {
	c.due.Delete(string(id[:]))
	c.idle.Delete(string(id[:]))
}

// first returns when the first group has its turn.
func (c *calendar) first() (at int64, ok bool) {
	_, at, ok = c.due.First()
	if _, end, isIdle := c.idle.First(); isIdle && (!ok || end < at) {
		return end, true
	}
	return at, ok
}

// firstDue returns the group whose event is made next.
func (c *calendar) firstDue() (id rule.Group, at int64, ok bool) { return first(&c.due) }

// firstIdle returns the group that is forgotten next.
func (c *calendar) firstIdle() (id rule.Group, at int64, ok bool) { return first(&c.idle) }

func first(w *timing.Waiting) (id rule.Group, at int64, ok bool) {
	text, at, ok := w.First()
	if !ok {
		return id, 0, false
	}
	return rule.Group([]byte(text)), at, true
}

// allDue yields the groups with changes, about in the order of their events.
func (c *calendar) allDue() iter.Seq[rule.Group] {
	return func(yield func(rule.Group) bool) {
		for id := range c.due.All() {
			if !yield(rule.Group([]byte(id))) {
				return
			}
		}
	}
}

// dueAt returns when the event of a group is made.
func (c *calendar) dueAt(id rule.Group) (at time.Time, ok bool) {
	ms, ok := c.due.Get(string(id[:]))
	return c.time(ms), ok
}
