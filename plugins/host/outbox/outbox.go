// Package outbox holds the events on their way to one handler, from Submit until each has an
// outcome.
//
// An [Outbox] belongs to a handler, local or remote. A [Consumer] takes events from it: a local
// handler has one, a remote handler one for each endpoint. A session attaches to its consumer,
// takes batches of events, sends them, and reports the answers. What a consumer has not sent when
// it leaves goes back to the outbox; what it has sent is lost with it, and the callers get
// handler.ErrLost.
//
// An event goes to the consumer with the least of its window taken. While none has room, it waits
// for whichever has room first. A consumer that gave reason for doubt gets less, as long as there
// is another one. An object whose last event timed out at a consumer stays with that consumer until
// the event is answered: only that endpoint knows when it has let go of the object.
//
// An event that takes much longer than the handler's others does not keep those waiting: slow.go
// says how.
//
// The package is bookkeeping only. It sends nothing, and starts no goroutine but the callbacks of
// contexts and of one timer for each consumer. It knows nothing of processes, connections and
// messages.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// Outbox holds a handler's events. All methods may be called concurrently. It holds as many events
// as callers submit: the callers bound them.
type Outbox struct {
	limit time.Duration // time limit of every event
	left  chan struct{} // see Left
	grown chan struct{} // see Grown

	// mu guards the fields below and the state of all consumers and calls. It is held for short
	// computations only, and no other lock is taken under it.
	mu      sync.Mutex
	stopped error           // set by Stop: nothing is delivered any more
	waiting fifo            // events that no consumer has, oldest first
	open    []*Consumer     // they take events
	leaving []*Consumer     // they take none any more, and still have some
	turn    int             // whom pick considers first, so that equals take turns
	ready   chan struct{}   // closed while open is not empty
	owed    map[object]bool // objects whose next event gets errEndedWith; at most maxOwed
	slow    map[object]bool // objects whose last event was slow; at most maxSlowObjects
}

// maxOwed bounds the objects that the outbox remembers as parties to a failure. The rest is
// forgotten.
const maxOwed = 1024

// maxEventBytes bounds one event, as wire.Size counts. It leaves room for the other fields of a message.
const maxEventBytes = handlerpb.MaxRequestBytes - 1<<20

// errEndedWith is the outcome of an object's next event after a process failed while an event of
// the object was overdue. That event may be the reason.
var errEndedWith = errors.New("the process was ended with an earlier attempt, past its time limit")

// Lost returns why as the reason for a handler.ErrLost.
func Lost(why error) error { return fmt.Errorf("%w: %w", handler.ErrLost, why) }

// New returns an empty Outbox without consumers. limit is the time that a handler has for one
// event, from its sending on.
func New(limit time.Duration) *Outbox {
	return &Outbox{
		limit: limit, owed: map[object]bool{}, slow: map[object]bool{},
		left: make(chan struct{}, 1), grown: make(chan struct{}, 1), ready: make(chan struct{}),
	}
}

// NewConsumer returns a consumer of the outbox. It takes events while it is attached.
func (o *Outbox) NewConsumer() *Consumer {
	return &Consumer{
		box: o, wake: make(chan struct{}, 1),
		bySeq: map[uint64]*call{}, late: newLateEvents(),
	}
}

// Handle delivers an event and returns its outcome. It blocks until then, or until ctx ends.
func (o *Outbox) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	answered := make(chan Outcome, 1)
	o.Submit(ctx, &ev, func(a handler.Answer, err error) {
		answered <- Outcome{Answer: a, Err: err}
	})
	out := <-answered
	return out.Answer, out.Err
}

// Submit delivers an event, and returns at once. answered is called once with the outcome, from
// any goroutine and perhaps before Submit returns; it must not block. When ctx ends, the outcome is
// its error. ev must never be changed.
func (o *Outbox) Submit(
	ctx context.Context, ev *handler.Event, answered func(handler.Answer, error),
) {
	c := newCall(ev, answered)
	err := c.check(ctx)
	if err == nil {
		o.mu.Lock()
		err = o.enter(ctx, c)
		o.mu.Unlock()
	}
	if err != nil {
		answered(handler.Answer{}, err)
	}
}

// SubmitAll submits events together: a consumer that has room for them can take them as one batch.
// answered is called once for each event, with its index, as Submit calls it.
func (o *Outbox) SubmitAll(
	ctx context.Context, events []*handler.Event, answered func(int, handler.Answer, error),
) {
	errs := make([]error, len(events))
	o.mu.Lock()
	for i, ev := range events {
		c := newCall(ev, func(a handler.Answer, err error) { answered(i, a, err) })
		if errs[i] = c.check(ctx); errs[i] == nil {
			errs[i] = o.enter(ctx, c)
		}
	}
	o.mu.Unlock()
	for i, err := range errs {
		if err != nil {
			answered(i, handler.Answer{}, err)
		}
	}
}

// enter makes a call one of the outbox, or returns its outcome. o.mu is held.
func (o *Outbox) enter(ctx context.Context, c *call) error {
	object := c.object()
	if o.stopped != nil {
		return o.stopped
	}
	if len(o.owed) > 0 && o.owed[object] {
		delete(o.owed, object)
		return Lost(errEndedWith)
	}
	c.unwatch = context.AfterFunc(ctx, func() { o.giveUp(c, ctx.Err()) })
	if keeper := o.keeper(object); keeper != nil {
		keeper.assign(c)
		return nil
	}
	o.waiting.push(c)
	o.share()
	return nil
}

// keeper returns the consumer that timed out on an event of the object and has not answered it yet,
// or nil. o.mu is held.
func (o *Outbox) keeper(obj object) *Consumer {
	for _, c := range o.open {
		if c.keeps(obj) {
			return c
		}
	}
	return nil
}

// share assigns waiting events to consumers as long as one has room. o.mu is held.
func (o *Outbox) share() {
	for c := o.waiting.head(); c != nil; c = o.waiting.head() {
		to := o.pick(c)
		if to == nil {
			for _, consumer := range o.open {
				consumer.watch()
			}
			return
		}
		o.waiting.remove(c)
		to.assign(c)
	}
}

// hasTrusted reports whether an open consumer gives no reason for doubt. o.mu is held.
func (o *Outbox) hasTrusted() bool {
	return slices.ContainsFunc(o.open, func(c *Consumer) bool { return c.isTrusted() })
}

// pick returns the best consumer that has room for c, or nil. o.mu is held.
func (o *Outbox) pick(c *call) (best *Consumer) {
	trusted := o.hasTrusted()
	again := c.event.Attempt > 1
	var least standing
	o.turn++
	for i := range o.open {
		candidate := o.open[(o.turn+i)%len(o.open)]
		s := candidate.standing(c)
		if s.hasRoom(trusted) && (best == nil || s.isBetter(least, again)) {
			best, least = candidate, s
		}
	}
	return best
}

// giveUp ends a call whose caller no longer wants it, unless its outcome came first.
func (o *Outbox) giveUp(c *call, why error) {
	o.mu.Lock()
	given := c.in != nil
	switch {
	case !given:
	case c.in == &o.waiting:
		o.waiting.remove(c)
	case c.seq != 0 && c.at.bySeq[c.seq] == c:
		c.at.abandon(c)
		c.at.kick()
	default:
		c.in.remove(c)
	}
	o.share()
	o.mu.Unlock()
	if given {
		report([]Outcome{{call: c, Err: why}})
	}
}

// Left returns a channel that delivers a token soon after consumers left the outbox. Tokens are
// merged.
func (o *Outbox) Left() <-chan struct{} { return o.left }

// Stop ends all waiting events with err, and every event that is submitted later. All consumers
// have detached.
func (o *Outbox) Stop(err error) {
	var ended []Outcome
	o.mu.Lock()
	o.stopped = err
	for c := o.waiting.head(); c != nil; c = o.waiting.head() {
		o.waiting.remove(c)
		ended = append(ended, Outcome{call: c, Err: err})
	}
	o.mu.Unlock()
	report(ended)
}

// Ready waits until a consumer takes events.
func (o *Outbox) Ready(ctx context.Context) error {
	o.mu.Lock()
	ready := o.ready
	o.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Room returns how many events the consumers may have at once, including those that are still with
// leaving ones: a slow leaver takes no place from the others. It is 0 without a consumer. isProbe
// reports that only places for probes are left: see slow.go.
func (o *Outbox) Room() (n int, isProbe bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	trusted := o.hasTrusted()
	isProbe = true
	for _, c := range o.open {
		s := c.standing(nil)
		n += s.places(trusted)
		isProbe = isProbe && s.has >= s.limit(trusted)
	}
	for _, c := range o.leaving {
		n += len(c.bySeq)
	}
	return n, isProbe
}

// Grown returns a channel that delivers a token when Room has grown, other than by an answer.
// Tokens are merged.
func (o *Outbox) Grown() <-chan struct{} { return o.grown }

// grow notes that Room has grown. o.mu is held.
func (o *Outbox) grow() {
	select {
	case o.grown <- struct{}{}:
	default:
	}
}

// Waiting returns how many events wait for a consumer with room.
func (o *Outbox) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting.n
}
