package simulate

import (
	"container/heap"
	"time"

	"github.com/informd/informd/engine/queue"
)

// clock is the time of a simulation, with the timers that wait for it. Only the goroutine that
// drives the simulation uses it, except that the state reads the time while it is opened or closed
// on behalf of that goroutine.
type clock struct {
	now    time.Time
	timers timers
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
	index int    // in clock.timers, or notSet
}

const notSet = -1

// AfterFunc calls a function once the clock has advanced by d, in ring.
func (c *clock) AfterFunc(d time.Duration, call func()) queue.Timer {
	t := &timer{clock: c, call: call, index: notSet}
	t.Reset(d)
	return t
}

// Stop implements queue.Timer.
func (t *timer) Stop() (was bool) {
	if t.index == notSet {
		return false
	}
	heap.Remove(&t.clock.timers, t.index)
	return true
}

// Reset implements queue.Timer.
func (t *timer) Reset(d time.Duration) (was bool) {
	was = t.Stop()
	t.clock.set++
	t.due, t.set = t.clock.now.Add(d), t.clock.set
	heap.Push(&t.clock.timers, t)
	return was
}

// ring calls the functions of the timers that are due, and reports whether there were any.
func (c *clock) ring() (rang bool) {
	for len(c.timers) > 0 && !c.timers[0].due.After(c.now) {
		heap.Pop(&c.timers).(*timer).call()
		rang = true
	}
	return rang
}

// next returns when the next timer is due; a zero time means never.
func (c *clock) next() time.Time {
	if len(c.timers) == 0 {
		return time.Time{}
	}
	return c.timers[0].due
}

// timers is a heap of timers, the first due in front.
type timers []*timer

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool {
	if t[i].due.Equal(t[j].due) {
		return t[i].set < t[j].set
	}
	return t[i].due.Before(t[j].due)
}

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

func (t *timers) Push(x any) {
	added := x.(*timer)
	added.index = len(*t)
	*t = append(*t, added)
}

func (t *timers) Pop() any {
	last := len(*t) - 1
	removed := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	removed.index = notSet
	return removed
}
