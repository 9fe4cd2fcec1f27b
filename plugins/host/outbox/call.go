package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/informd/informd/internal/list"
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

	isSlow   bool                // takes no place of Window.Events: see slow.go
	at       *Consumer           // has the call; nil: it waits for one
	seq      uint64              // set when the event is taken
	deadline time.Time           // likewise
	in       *fifo               // the list that holds the call; nil once it has an outcome
	place    list.Element[*call] // in that list
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
	list  list.List[*call]
	n     int
	bytes int64 // of their events
}

// head returns the first call, or nil.
func (f *fifo) head() *call { return callAt(f.list.Front()) }

// tail returns the last call, or nil.
func (f *fifo) tail() *call { return callAt(f.list.Back()) }

// next returns the call behind c in its list, or nil.
func (c *call) next() *call { return callAt(c.place.Next()) }

func callAt(e *list.Element[*call]) *call {
	if e == nil {
		return nil
	}
	return e.Value
}

func (f *fifo) push(c *call) { f.insertBefore(c, nil) }

func (f *fifo) pushFront(c *call) { f.insertBefore(c, f.list.Front()) }

// insert puts c where its number belongs, in a list in order of numbers.
func (f *fifo) insert(c *call) {
	var behind *list.Element[*call]
	for at := f.list.Back(); at != nil && at.Value.seq > c.seq; at = at.Prev() {
		behind = at
	}
	f.insertBefore(c, behind)
}

// insertBefore puts c in front of at, or at the end if at is nil.
func (f *fifo) insertBefore(c *call, at *list.Element[*call]) {
	c.in, c.place.Value = f, c
	f.list.InsertBefore(&c.place, at)
	f.n++
	f.bytes += c.size
}

func (f *fifo) remove(c *call) {
	c.in = nil
	f.list.Remove(&c.place)
	f.n--
	f.bytes -= c.size
}
