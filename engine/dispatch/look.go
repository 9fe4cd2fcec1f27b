package dispatch

import (
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
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
	return d.Delta.ID(l.naming.of(d, o.N))
}

// Look returns what the lane has of an object.
func (l *Lane) Look(key delta.Key) (o Outlook) {
	o.Held, o.IsHeld = l.queue.Look(key)
	if l.traits.gathers {
		o.Gathered, o.Next = l.gathering().look(key)
	}
	return o
}

// LastObject returns the object whose delivery was the last event of a group.
func (l *Lane) LastObject(of rule.Group) (key delta.Key, ok bool) {
	if !l.traits.gathers {
		return key, false
	}
	return l.gathering().lastObject(of)
}
