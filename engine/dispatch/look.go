package dispatch

import (
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

// Outlook is what a lane has yet to deliver about an object.
type Outlook struct {
	queue.Held[delivery.Delivery]
	IsHeld   bool      // the queue has something of the object
	Gathered int       // changes of the object that wait for the event of a group
	Next     time.Time // when the first of these events comes
}

// ID returns the id of the first delivery, if HasFirst.
func (l *Lane) ID(o Outlook) string {
	d := &o.First
	return d.Delta.ID(l.nameOf(d, o.N))
}

// Look returns what the lane has of an object.
func (l *Lane) Look(key delta.Key) (o Outlook) {
	o.Held, o.IsHeld = l.queue.Look(key)
	if l.gathers() {
		o.Gathered, o.Next = l.gathering().look(key)
	}
	return o
}

// look returns how many changes of an object wait, and when the first event of their groups comes.
func (g *gathering) look(key delta.Key) (n int, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n = g.held[key].n; n == 0 {
		return 0, time.Time{}
	}
	left := n
	for id, of := range g.groups {
		for e := of.changes.Front(); e != nil && left > 0; e = e.Next() {
			if e.Value.(*gathered).key != key {
				continue
			}
			left--
			if at, ok := g.due.Get(string(id[:])); ok {
				due := g.origin.Add(time.Duration(at) * time.Millisecond)
				next = timing.Earlier(next, due)
			}
		}
	}
	return n, next
}

// Told returns the object whose delivery was the last event of a group.
func (l *Lane) Told(of rule.Group) (key delta.Key, ok bool) {
	if !l.gathers() {
		return key, false
	}
	g := l.gathering()
	g.mu.Lock()
	defer g.mu.Unlock()
	if told := g.groups[of]; told != nil && told.wasTold {
		return told.key, true
	}
	return key, false
}
