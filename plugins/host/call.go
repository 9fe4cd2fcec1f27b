package host

import (
	"context"
	"fmt"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// call is one event, from Submit to its outcome.
type call struct {
	event    *handler.Event // is not changed, even when the call has ended: it may be on its way to the process
	size     int64          // of its JSON
	answered func(handler.Answer, error)
	unwatch  func() bool // ends the watch over the caller's context

	seq      uint64      // since it was sent
	deadline time.Time   // likewise
	at       *deliveries // of a pool: who has it; nil: it waits for one. Guarded by the pool
	in       *fifo       // the list that the call is in; nil once it has an outcome
	prev     *call
	next     *call
}

func newCall(ev *handler.Event, answered func(handler.Answer, error)) *call {
	return &call{event: ev, size: sizeOfEvent(ev), answered: answered}
}

// sizeOfEvent is how many bytes of JSON an event has.
func sizeOfEvent(ev *handler.Event) int64 {
	size := len(ev.Object) + len(ev.Old) + len(ev.Payload)
	for _, objects := range ev.Attached {
		for _, o := range objects {
			size += len(o)
		}
	}
	return int64(size)
}

// fit tells why c cannot be delivered; nil: it can.
func (c *call) fit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.size > maxEventBytes {
		return handler.Reject(fmt.Errorf("the event has %d bytes, more than the %d that can be delivered", c.size, int64(maxEventBytes)))
	}
	return nil
}

func (c *call) object() object {
	return object{c.event.Rule, c.event.Namespace, c.event.Name, c.event.Resource}
}

// outcome is how a call ended.
type outcome struct {
	seq    uint64
	call   *call // nil: nobody waits for it
	answer handler.Answer
	err    error
}

// tell tells the callers. It is called with nothing locked.
func tell(outcomes []outcome) {
	for _, o := range outcomes {
		if o.call != nil {
			o.call.unwatch()
			o.call.answered(o.answer, o.err)
		}
	}
}

// watch calls giveUp when ctx ends, until the call has an outcome.
func (c *call) watch(ctx context.Context, giveUp func(*call, error)) {
	c.unwatch = context.AfterFunc(ctx, func() { giveUp(c, ctx.Err()) })
}

// fifo is a list of calls in order; each is in one list at most.
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
