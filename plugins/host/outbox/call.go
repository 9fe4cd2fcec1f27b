package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/wire"
)

// call is one event from Submit to its outcome. Outbox.mu guards the fields after unwatch. They are
// many because a call is what its lists, its consumer and its caller share.
type call struct {
	event    *handler.Event // never changed, even after the outcome: it may be on its way
	size     int64          // as wire.Size counts it, in bytes
	answered func(handler.Answer, error)
	unwatch  func() bool // stops watching the caller's context

	isSlow   bool      // takes no place of Window.Events: see slow.go
	at       *Consumer // has the call; nil: it waits for one
	seq      uint64    // set when the event is taken
	deadline time.Time // likewise
	in       *fifo     // the list that holds the call; nil once it has an outcome
	prev     *call
	next     *call
}

func newCall(ev *handler.Event, answered func(handler.Answer, error)) *call {
	return &call{event: ev, size: int64(wire.Size(ev)), answered: answered}
}

// check returns why the event cannot be delivered, or nil.
func (c *call) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.size > maxEventBytes {
		err := fmt.Errorf("the event has %d bytes, more than the %d that can be delivered",
			c.size, int64(maxEventBytes))
		return handler.Reject(err)
	}
	return nil
}

func (c *call) object() object {
	return object{c.event.Rule, c.event.Namespace, c.event.Name, c.event.Resource}
}

// object is what the events of one rule for one object have in common.
type object struct {
	rule, namespace, name string
	resource              handler.Resource
}

// Outcome is how an event ended: the handler's answer, or an error.
type Outcome struct {
	Seq    uint64 // of the event, in the current session
	Answer handler.Answer
	Err    error

	call *call // nil: nobody waits for it
}

// report calls back the callers. It is called without a lock.
func report(outcomes []Outcome) {
	for _, o := range outcomes {
		if o.call != nil {
			o.call.unwatch()
			o.call.answered(o.Answer, o.Err)
		}
	}
}

// fifo is a list of calls in order. A call is in one list at most.
type fifo struct {
	head, tail *call
	n          int
	bytes      int64 // of their events
}

func (f *fifo) push(c *call) {
	c.in, c.prev, c.next = f, f.tail, nil
	if f.tail == nil {
		f.head = c
	} else {
		f.tail.next = c
	}
	f.tail = c
	f.n++
	f.bytes += c.size
}

func (f *fifo) pushFront(c *call) {
	c.in, c.prev, c.next = f, nil, f.head
	if f.head == nil {
		f.tail = c
	} else {
		f.head.prev = c
	}
	f.head = c
	f.n++
	f.bytes += c.size
}

// insert puts c where its number belongs, in a list in order of numbers.
func (f *fifo) insert(c *call) {
	before := f.tail
	for before != nil && before.seq > c.seq {
		before = before.prev
	}
	switch before {
	case f.tail:
		f.push(c)
		return
	case nil:
		f.pushFront(c)
		return
	}
	c.in, c.prev, c.next = f, before, before.next
	before.next.prev = c
	before.next = c
	f.n++
	f.bytes += c.size
}

func (f *fifo) remove(c *call) {
	if c.prev == nil {
		f.head = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		f.tail = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.in, c.prev, c.next = nil, nil, nil
	f.n--
	f.bytes -= c.size
}
