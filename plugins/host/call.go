package host

import (
	"context"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// call is one event, from Submit to its outcome.
type call struct {
	event    *handler.Event // is not changed, even when the call has ended: it may be on its way to the process
	size     int64          // of its JSON
	answered func(handler.Answer, error)
	unwatch  func() bool // ends the watch over the caller's context

	seq      uint64    // since it was sent
	deadline time.Time // likewise
	in       *fifo     // the list that the call is in; nil once it has an outcome
	prev     *call
	next     *call
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
}
