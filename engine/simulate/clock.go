package simulate

import (
	"time"

	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/internal/heap"
)

// clock is the time of a simulation, with the timers that wait for it. Only the goroutine that
// drives the simulation uses it, except that the state reads the time while it is opened or closed
// on behalf of that goroutine.
type clock struct {
	now    time.Time
	timers heap.Heap[*timer, byDue]
	set    uint64 // how often a timer was set
}

// Now implements clock.PassiveClock of k8s.io/utils.
func (c *clock) Now() time.Time { return c.now }

// Since implements clock.PassiveClock.
func (c *clock) Since(t time.Time) time.Duration { return c.now.Sub(t) }

// timer is one timer of a clock. It implements queue.Timer.
type timer struct {
	clock *clock
	call  func()
	due   time.Time
	set   uint64 // orders timers that are due at the same time
	place int    // in clock.timers, or heap.Out
}

// byDue orders the timers of a clock.
type byDue struct{}

func (byDue) Less(a, b *timer) bool {
	if a.due.Equal(b.due) {
		return a.set < b.set
	}
	return a.due.Before(b.due)
}

func (byDue) Place(of *timer) *int { return &of.place }

// AfterFunc calls a function once the clock has advanced by d, in ring.
func (c *clock) AfterFunc(d time.Duration, call func()) queue.Timer {
	t := &timer{clock: c, call: call, place: heap.Out}
	t.Reset(d)
	return t
}

// Stop implements queue.Timer.
func (t *timer) Stop() (was bool) {
	if t.place == heap.Out {
		return false
	}
	t.clock.timers.Remove(t)
	return true
}

// Reset implements queue.Timer.
func (t *timer) Reset(d time.Duration) (was bool) {
	was = t.Stop()
	t.clock.set++
	t.due, t.set = t.clock.now.Add(d), t.clock.set
	t.clock.timers.Push(t)
	return was
}

// ring calls the functions of the timers that are due, and reports whether there were any.
func (c *clock) ring() (rang bool) {
	for c.timers.Len() > 0 && !c.timers.First().due.After(c.now) {
		c.timers.Pop().call()
		rang = true
	}
	return rang
}

// next returns when the next timer is due; a zero time means never.
func (c *clock) next() time.Time {
	if c.timers.Len() == 0 {
		return time.Time{}
	}
	return c.timers.First().due
}
