package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// deliveries holds the events on their way between the callers of Submit and the process. It lives as long as its Host:
// what waits, waits across processes; what was sent belongs to the process that it was sent to.
//
// It is bookkeeping only: it does not send, and is told the time. All methods may be called concurrently.
type deliveries struct {
	limit time.Duration // of every event
	owed  *debts
	pool  *pool         // of which this is one, and which fills waiting; nil: what waits, waits for the next process
	wake  chan struct{} // tells the sender that there may be something to take; one token is enough

	mu       sync.Mutex
	stopped  error            // set by stop: nothing is delivered any more
	attached bool             // there is a process to send to
	held     chan struct{}    // not nil: nothing more is sent to it; closed once nothing is with it
	window   window           // of that process
	waiting  fifo             // not sent; as many as callers submit
	sent     fifo             // sent and not answered, oldest first, so that deadlines ascend; within the window
	bySeq    map[uint64]*call // the same
	late     map[uint64]late  // given up on, not answered yet; see overdue
	cancels  []uint64         // of late, those that the process has not been told of
	seq      uint64           // of the last event sent on this stream
	proven   bool             // a process has answered an event, and none has failed since
	failed   bool             // a process failed, and none has answered an event since
	wedged   bool             // the process leaves a health check without an answer
	counts   Counts
}

// window is how much may be with the process at once.
type window struct {
	events int
	bytes  int64 // a larger event goes alone
	// Of events that were given up on, more than abandoned without an answer, or one for longer than patience after its
	// time limit, and the process is beyond hope.
	abandoned int
	patience  time.Duration
}

// late is an event that was given up on.
type late struct {
	object   object
	deadline time.Time
}

// object is what the events of one rule for one object have in common.
type object struct {
	rule, namespace, name string
	resource              handler.Resource
}

// debts are the objects with whose events, late already, a process ended: what comes next of them is told so.
type debts struct {
	mu sync.Mutex
	of map[object]bool // at most maxOwed
}

// maxOwed bounds the objects whose part in a process's end is remembered; beyond it, the end is not told of.
const maxOwed = 1024

func (d *debts) add(o object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = make(map[object]bool)
	}
	if len(d.of) < maxOwed {
		d.of[o] = true
	}
}

// settle tells whether o is one of them, and that it no longer is.
func (d *debts) settle(o object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	owed := d.of[o]
	delete(d.of, o)
	return owed
}

// batch is what goes to the process in one message.
type batch struct {
	calls   []*call
	cancels []uint64
}

// Counts are totals over the Host's life.
type Counts struct {
	Sent     uint64 // events sent, every attempt
	Batches  uint64 // messages that they were sent in
	Answered uint64 // and answered in time
	TimedOut uint64 // not answered within the time limit
	Lost     uint64 // with a process or stream when it went away
	Late     uint64 // answers to events that had been given up on
	Unknown  uint64 // answers to events that were never sent, or were answered before
}

// errStopped is what callers get whose event was never sent, when the Host ends.
var errStopped = errors.New("handler is stopped")

// maxEventBytes is what one event may measure, with room for its other fields within a message.
const maxEventBytes = handlerpb.MaxRequestBytes - 1<<20

func newDeliveries(limit time.Duration, owed *debts) *deliveries {
	return &deliveries{limit: limit, owed: owed, wake: make(chan struct{}, 1), bySeq: map[uint64]*call{}, late: map[uint64]late{}}
}

// submit has one event delivered, and answered called with the answer or with a reason why there will be none.
func (d *deliveries) submit(ctx context.Context, ev *handler.Event, answered func(handler.Answer, error)) {
	c := newCall(ev, answered)
	if err := d.enter(ctx, c); err != nil {
		answered(handler.Answer{}, err)
	}
}

func (d *deliveries) enter(ctx context.Context, c *call) error {
	if err := c.fit(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped != nil {
		return d.stopped
	}
	if d.owed.settle(c.object()) {
		return lost(errEndedWith)
	}
	d.waiting.push(c)
	c.watch(ctx, d.giveUp)
	d.kick()
	return nil
}

// giveUp ends a call that the caller does not want any more.
func (d *deliveries) giveUp(c *call, why error) {
	if d.withdraw(c) {
		tell([]outcome{{call: c, err: why}})
	}
}

// withdraw takes c back. It returns false if its outcome came at the same moment.
func (d *deliveries) withdraw(c *call) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch c.in {
	case &d.waiting:
		d.waiting.remove(c)
	case &d.sent:
		d.abandon(c)
	default:
		return false
	}
	d.kick()
	return true
}

// attach begins a stream to a new process.
func (d *deliveries) attach(w window) {
	d.mu.Lock()
	d.attached, d.window, d.seq, d.held, d.wedged = true, w, 0, nil, false
	d.mu.Unlock()
	d.kick()
	d.pool.join(d)
}

// hold sends nothing more to the process. The channel is closed once all that it was sent has an outcome.
func (d *deliveries) hold() <-chan struct{} {
	d.mu.Lock()
	if d.held == nil {
		d.held = make(chan struct{})
		if d.sent.n == 0 {
			close(d.held)
		}
	}
	held := d.held
	d.mu.Unlock()
	d.pool.leave(d)
	return held
}

// drop ends what waits. d.mu is held.
func (d *deliveries) drop(err error) (ended []outcome) {
	for c := d.waiting.head; c != nil; c = d.waiting.head {
		d.waiting.remove(c)
		ended = append(ended, outcome{call: c, err: err})
	}
	return ended
}

// resume sends again what waits, after hold.
func (d *deliveries) resume() {
	d.mu.Lock()
	d.held = nil
	d.mu.Unlock()
	d.kick()
}

// errEndedWith is what is told of an object, with its next event, whose event a process had not answered, when it was ended,
// although its time was over. It may be why.
var errEndedWith = errors.New("the process was ended with an earlier attempt, past its time limit")

// fail is detach for a process that failed. What comes next of each object whose event it has let wait is told so: what is
// with it, by detach; what waits, here; what is still to come, when it does.
func (d *deliveries) fail(err error) {
	var ended []outcome
	d.mu.Lock()
	d.proven, d.failed = false, true
	stuck := make(map[object]bool, len(d.late))
	for _, l := range d.late {
		stuck[l.object] = true
	}
	for c := d.sent.head; c != nil; c = c.next {
		delete(stuck, c.object())
	}
	for c := d.waiting.head; c != nil && len(stuck) > 0; {
		next := c.next
		if o := c.object(); stuck[o] {
			delete(stuck, o)
			d.waiting.remove(c)
			ended = append(ended, outcome{call: c, err: lost(errEndedWith)})
		}
		c = next
	}
	for o := range stuck {
		d.owed.add(o)
	}
	d.mu.Unlock()
	tell(ended)
	d.detach(err)
}

// detach ends the stream. Callers whose event was sent and not answered get err; their sequence numbers are returned, and
// those of the events that were given up on, as far as the process has not been told. What was not sent waits for the next
// process.
func (d *deliveries) detach(err error) (seqs []uint64) {
	d.pool.gone(d)
	var ended []outcome
	d.mu.Lock()
	seqs = d.cancels
	for c := d.sent.head; c != nil; c = d.sent.head {
		d.release(c)
		d.counts.Lost++
		seqs = append(seqs, c.seq)
		ended = append(ended, outcome{call: c, err: err})
	}
	d.attached, d.cancels = false, nil
	clear(d.late)
	d.mu.Unlock()
	tell(ended)
	return seqs
}

// stop ends everything: who waits, and who comes, gets err.
func (d *deliveries) stop(err error) {
	d.mu.Lock()
	d.stopped = err
	ended := d.drop(err)
	d.mu.Unlock()
	tell(ended)
}

// take returns the next message to send, or nil if there is nothing that may be sent now. Time limits count from now.
func (d *deliveries) take(now time.Time) *batch {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.attached {
		return nil
	}
	b := &batch{cancels: d.cancels}
	d.cancels = nil
	deadline := now.Add(d.limit)
	size := int64(0)
	for c := d.waiting.head; c != nil && d.held == nil; c = d.waiting.head {
		if d.sent.n >= d.window.events || d.sent.n > 0 && d.sent.bytes+c.size > d.window.bytes {
			break
		}
		if n := len(b.calls); n == handlerpb.MaxBatchEvents || n > 0 && size+c.size > handlerpb.MaxBatchBytes {
			break
		}
		d.waiting.remove(c)
		d.seq++
		c.seq, c.deadline = d.seq, deadline
		d.sent.push(c)
		d.bySeq[d.seq] = c
		size += c.size
		b.calls = append(b.calls, c)
	}
	switch {
	case len(b.calls) > 0:
		d.counts.Sent += uint64(len(b.calls))
		d.counts.Batches++
	case len(b.cancels) == 0:
		return nil
	}
	return b
}

// complete takes the answers of one message, and tells the callers. It returns how many of the answers are neither wanted
// nor late.
func (d *deliveries) complete(answers []outcome) (stray int) {
	d.mu.Lock()
	for i := range answers {
		a := &answers[i]
		if c := d.bySeq[a.seq]; c != nil {
			d.counts.Answered++
			d.proven, d.failed = true, false
			d.release(c)
			a.call = c
		} else if _, ok := d.late[a.seq]; ok || !d.attached { // when the stream is ending, all that was with the process was given up on
			delete(d.late, a.seq)
			d.counts.Late++
		} else {
			d.counts.Unknown++
			stray++
		}
	}
	more := d.waiting.n > 0
	d.mu.Unlock()
	if more {
		d.kick()
	}
	d.pool.fill()
	tell(answers)
	return stray
}

// expire gives up on events whose time is over, and says when to look again.
func (d *deliveries) expire(now time.Time) (next time.Time) {
	var ended []outcome
	d.mu.Lock()
	next = now.Add(d.limit) // what is sent from now on is due no earlier
	for c := d.sent.head; c != nil; c = d.sent.head {
		if c.deadline.After(now) {
			next = c.deadline
			break
		}
		d.abandon(c)
		d.counts.TimedOut++
		ended = append(ended, outcome{call: c, err: fmt.Errorf("%w of %v", handler.ErrNoAnswer, d.limit)})
	}
	d.mu.Unlock()
	d.kick()
	d.pool.fill()
	tell(ended)
	return next
}

// overdue tells whether the process leaves too many events unanswered, or one for too long, to be of use.
func (d *deliveries) overdue(now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.attached {
		return nil
	}
	if len(d.late) > d.window.abandoned {
		return fmt.Errorf("it left more than %d events without an answer", d.window.abandoned)
	}
	for _, l := range d.late {
		if now.Sub(l.deadline) > d.window.patience {
			return fmt.Errorf("it left an event without an answer for more than %v after its time limit", d.window.patience)
		}
	}
	return nil
}

// abandon frees the place of an event whose answer is no longer wanted. d.mu is held.
func (d *deliveries) abandon(c *call) {
	d.release(c)
	d.late[c.seq] = late{c.object(), c.deadline}
	d.cancels = append(d.cancels, c.seq)
}

// release frees the place of an event that was sent. d.mu is held.
func (d *deliveries) release(c *call) {
	d.sent.remove(c)
	delete(d.bySeq, c.seq)
	if d.held != nil && d.sent.n == 0 {
		close(d.held)
	}
}

func (d *deliveries) kick() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *deliveries) stats() (waiting, inFlight int, counts Counts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting.n, d.sent.n, d.counts
}
