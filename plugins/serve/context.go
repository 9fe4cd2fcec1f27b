package serve

import (
	"context"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// callContext is the context of one call of Handle. Many handlers never use theirs, so its costs, a
// timer and a place among the children of the stream's context, arise at the first use.
type callContext struct {
	parent   context.Context
	deadline time.Time      // zero: none
	event    *handler.Event // nil: the call is about a batch

	mu     sync.Mutex
	ended  bool
	inner  context.Context // nil until the first use
	cancel context.CancelFunc
}

var _ context.Context = (*callContext)(nil)

func (c *callContext) Deadline() (time.Time, bool) { return c.context().Deadline() }
func (c *callContext) Done() <-chan struct{}       { return c.context().Done() }
func (c *callContext) Err() error                  { return c.context().Err() }

// Value also returns the event, for log lines.
func (c *callContext) Value(key any) any {
	if key == (eventKey{}) {
		return c.event
	}
	return c.context().Value(key)
}

// eventKey is the key under which a call's context has its event.
type eventKey struct{}

// eventOf returns the event that ctx is about, or nil.
func eventOf(ctx context.Context) *handler.Event {
	ev, _ := ctx.Value(eventKey{}).(*handler.Event)
	return ev
}

// String keeps those who print contexts away from the fields that mu guards.
func (c *callContext) String() string { return "serve.callContext" }

func (c *callContext) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner != nil {
		return c.inner
	}
	if c.deadline.IsZero() {
		c.inner, c.cancel = context.WithCancel(c.parent)
	} else {
		c.inner, c.cancel = context.WithDeadline(c.parent, c.deadline)
	}
	if c.ended {
		c.cancel()
	}
	return c.inner
}

// end cancels the context.
func (c *callContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.inner != nil {
		c.cancel()
	}
}
