package outbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// Consumer takes events from an outbox for one process, or one endpoint, and for whatever replaces
// it. A session attaches to it, and detaches from it at its end. All methods may be called
// concurrently.
type Consumer struct {
	box  *Outbox
	wake chan struct{} // see Wake

	// The fields below are guarded by box.mu. They are one struct because each method changes
	// several of them together.
	attached bool          // a session sends what is taken
	held     chan struct{} // not nil: sends nothing more; closed once the handler has nothing
	window   Window        // of the current session
	assigned fifo          // not sent yet
	sent     fifo          // not answered yet; oldest first, so that deadlines ascend
	// slowAssigned and slowSent are likewise, of events that take no place: see slow.go.
	slowAssigned, slowSent fifo

	bySeq   map[uint64]*call // the calls of sent and slowSent
	late    lateEvents       // abandoned, and not answered yet; see Overdue
	pace    pace
	probing probing
	seq     uint64 // of the last event taken in this session
	proven  bool   // has answered an event, and has not failed since
	failed  bool   // has failed, and has not answered an event since
	wedged  bool   // leaves a health check without an answer
	counts  Counts
}

// Window bounds what may be with the handler at once.
type Window struct {
	Events int
	Bytes  int64 // of events, as wire.Size counts; a larger event goes alone
	// MaxEvents and MaxBytes bound all events, slow ones and probes included: see slow.go. They are
	// at least Events and Bytes. If MaxEvents is Events, no event counts as slow.
	MaxEvents int
	MaxBytes  int64
	// A handler is beyond hope once it leaves more than Abandoned late events unanswered, slow ones
	// not included, or one for longer than Patience after its time limit.
	Abandoned int
	Patience  time.Duration
	// Last is the attempt from which on an event goes alone, in a message of its own; 0 means none.
	Last int
}

// isLast reports whether an event goes alone.
func (w *Window) isLast(ev *handler.Event) bool { return w.Last > 0 && ev.Attempt >= w.Last }

// Batch is what goes to the handler in one message.
type Batch struct {
	Events  []Sent
	Cancels []uint64 // events whose answers nobody wants any more
}

// Sent is an event and its number in the session.
type Sent struct {
	Seq   uint64
	Event *handler.Event // not to be changed
}

// Counts are totals over the consumer's life.
type Counts struct {
	Sent     uint64 // events sent, every attempt
	Batches  uint64 // messages that they were sent in
	Answered uint64 // events answered in time
	TimedOut uint64 // events not answered within the time limit
	Lost     uint64 // events that were with a process or connection when it ended
	Late     uint64 // answers that came after the time limit, or that nobody wanted any more
	Unknown  uint64 // answers to events that were never sent, or that were answered before
}

// Add adds other to c.
func (c *Counts) Add(other Counts) {
	c.Sent += other.Sent
	c.Batches += other.Batches
	c.Answered += other.Answered
	c.TimedOut += other.TimedOut
	c.Lost += other.Lost
	c.Late += other.Late
	c.Unknown += other.Unknown
}

// Wake returns a channel that delivers a token when Take may have something. Tokens are merged.
func (c *Consumer) Wake() <-chan struct{} { return c.wake }

// kick wakes the sender.
func (c *Consumer) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// assign gives the consumer an event to send. box.mu is held.
func (c *Consumer) assign(call *call) {
	call.at = c
	if call.isSlow = c.takesAsSlow(call); call.isSlow {
		c.slowAssigned.push(call)
		c.box.grow()
	} else {
		c.assigned.push(call)
	}
	c.kick()
}

// keeps reports whether an event of the object is late here. box.mu is held.
func (c *Consumer) keeps(o object) bool { return c.late.has(o) }

// Attach begins a session: from now on the consumer gets events.
func (c *Consumer) Attach(w Window) {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	w.MaxEvents, w.MaxBytes = max(w.MaxEvents, w.Events), max(w.MaxBytes, w.Bytes)
	c.attached, c.window, c.seq, c.held, c.wedged = true, w, 0, nil, false
	c.join()
	c.kick()
}

// join makes the outbox assign events to c. box.mu is held.
func (c *Consumer) join() {
	c.box.leaving = slices.DeleteFunc(c.box.leaving, func(other *Consumer) bool {
		return other == c
	})
	c.box.open = append(c.box.open, c)
	if len(c.box.open) == 1 {
		close(c.box.ready)
	}
	c.box.grow()
	c.box.share()
}

// leave makes the outbox assign nothing more to c, and puts back what was not sent, ahead of other
// waiting events. box.mu is held.
func (c *Consumer) leave() {
	o := c.box
	i := slices.Index(o.open, c)
	if i < 0 {
		return
	}
	o.open = slices.Delete(o.open, i, i+1)
	o.leaving = append(o.leaving, c)
	if len(o.open) == 0 {
		o.ready = make(chan struct{})
	}
	select {
	case o.left <- struct{}{}:
	default:
	}
	for call := c.assigned.tail(); call != nil; call = c.assigned.tail() {
		c.assigned.remove(call)
		call.at = nil
		o.waiting.pushFront(call)
	}
	for call := c.slowAssigned.tail(); call != nil; call = c.slowAssigned.tail() {
		c.slowAssigned.remove(call)
		call.at, call.isSlow = nil, false
		o.waiting.pushFront(call)
	}
	o.share()
}

// Hold stops sending. The channel is closed once every event that was sent has an outcome.
func (c *Consumer) Hold() <-chan struct{} {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	if c.held == nil {
		c.held = make(chan struct{})
		if len(c.bySeq) == 0 {
			close(c.held)
		}
	}
	c.leave()
	return c.held
}

// IsHeld reports whether Hold was called in this session.
func (c *Consumer) IsHeld() bool {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	return c.held != nil
}

// Resume makes the consumer send again after Hold.
func (c *Consumer) Resume() {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	if c.held == nil {
		return
	}
	c.held = nil
	c.join()
	c.kick()
}

// Fail is Detach for a handler that failed. An object that had a late event here gets an outcome
// that says so with its next event: one that was sent, by Detach; one that waits, now; one that is
// still to come, when it is submitted.
func (c *Consumer) Fail(err error) {
	o := c.box
	o.mu.Lock()
	c.proven, c.failed = false, true
	stuck := make(map[object]bool, len(c.late.bySeq))
	for _, l := range c.late.bySeq {
		stuck[l.object] = true
	}
	for _, call := range c.bySeq {
		delete(stuck, call.object())
	}
	var ended []Outcome
	for _, list := range []*fifo{&c.assigned, &c.slowAssigned, &o.waiting} {
		for call := list.head(); call != nil && len(stuck) > 0; {
			next := call.next()
			if object := call.object(); stuck[object] {
				delete(stuck, object)
				list.remove(call)
				ended = append(ended, Outcome{call: call, Err: Lost(errEndedWith)})
			}
			call = next
		}
	}
	for object := range stuck {
		if len(o.owed) < maxOwed {
			o.owed[object] = true
		}
	}
	lost, _ := c.detach(err)
	o.mu.Unlock()
	report(append(ended, lost...))
}

// Detach ends the session. Events that were sent and not answered end with err. It returns the
// numbers of those events, and of the abandoned ones that the handler was not told about. What was
// not sent goes back to the outbox.
func (c *Consumer) Detach(err error) (seqs []uint64) {
	c.box.mu.Lock()
	ended, seqs := c.detach(err)
	c.box.mu.Unlock()
	report(ended)
	return seqs
}

// detach ends the session and returns outcomes to report. box.mu is held.
func (c *Consumer) detach(err error) (ended []Outcome, seqs []uint64) {
	c.leave()
	c.box.leaving = slices.DeleteFunc(c.box.leaving, func(other *Consumer) bool {
		return other == c
	})
	seqs = c.late.takeCancels()
	for _, list := range []*fifo{&c.slowSent, &c.sent} {
		for call := list.head(); call != nil; call = list.head() {
			c.release(call)
			c.counts.Lost++
			seqs = append(seqs, call.seq)
			ended = append(ended, Outcome{call: call, Err: err})
		}
	}
	c.attached = false
	c.late.clear()
	c.stopProbing()
	return ended, seqs
}

// Take returns the next message to send, or nil if there is nothing to send now. Time limits count
// from now.
func (c *Consumer) Take(now time.Time) *Batch {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	if !c.attached {
		return nil
	}
	b := &Batch{Cancels: c.late.takeCancels()}
	deadline := now.Add(c.box.limit)
	size := int64(0)
	for call := c.next(); call != nil; call = c.next() {
		n := len(b.Events)
		if n == handlerpb.MaxBatchEvents || n > 0 && size+call.size > handlerpb.MaxBatchBytes ||
			n > 0 && (c.window.isLast(call.event) || c.window.isLast(b.Events[0].Event)) {
			break
		}
		if b.Events == nil {
			n := c.assigned.n + c.slowAssigned.n
			b.Events = make([]Sent, 0, min(n, handlerpb.MaxBatchEvents))
		}
		call.in.remove(call)
		c.seq++
		call.seq, call.deadline = c.seq, deadline
		if call.isSlow {
			c.slowSent.push(call)
		} else {
			c.sent.push(call)
		}
		c.bySeq[c.seq] = call
		size += call.size
		b.Events = append(b.Events, Sent{call.seq, call.event})
	}
	switch {
	case len(b.Events) > 0:
		c.counts.Sent += uint64(len(b.Events))
		c.counts.Batches++
		c.probing.quiet = now
		c.watch()
	case len(b.Cancels) == 0:
		return nil
	}
	return b
}

// next returns the next event to send, or nil if there is none, or no room for it. box.mu is held.
func (c *Consumer) next() *call {
	switch {
	case c.held != nil:
		return nil
	case c.slowAssigned.n > 0:
		return c.slowAssigned.head()
	case c.assigned.n > 0 && c.maySend(c.assigned.head()):
		return c.assigned.head()
	}
	return nil
}

// Complete takes the answers of one message and calls back the callers. It returns how many of the
// answers belong to no event that was sent and is unanswered.
func (c *Consumer) Complete(answers []Outcome) (stray int) {
	now := time.Now()
	c.box.mu.Lock()
	for i := range answers {
		a := &answers[i]
		if call := c.bySeq[a.Seq]; call != nil {
			c.counts.Answered++
			c.proven, c.failed = true, false
			c.release(call)
			a.call = call
		} else if c.late.remove(a.Seq) || !c.attached { // after Detach, all that was sent is late
			c.counts.Late++
		} else {
			c.counts.Unknown++
			stray++
		}
	}
	c.heard(answers, now)
	c.box.share()
	c.watch()
	if c.assigned.n > 0 {
		c.kick()
	}
	c.box.mu.Unlock()
	report(answers)
	return stray
}

// Expire abandons events whose time limit has passed, and returns when to call it again.
func (c *Consumer) Expire(now time.Time) (next time.Time) {
	var ended []Outcome
	c.box.mu.Lock()
	next = now.Add(c.box.limit) // nothing that is taken from now on expires earlier
	for _, list := range []*fifo{&c.slowSent, &c.sent} {
		for call := list.head(); call != nil; call = list.head() {
			if call.deadline.After(now) {
				if call.deadline.Before(next) {
					next = call.deadline
				}
				break
			}
			c.abandon(call)
			c.counts.TimedOut++
			err := fmt.Errorf("%w of %v", handler.ErrNoAnswer, c.box.limit)
			ended = append(ended, Outcome{call: call, Err: err})
		}
	}
	c.box.share()
	c.kick()
	c.box.mu.Unlock()
	report(ended)
	return next
}

// Overdue returns an error if the handler leaves too many late events unanswered, or one for too
// long.
func (c *Consumer) Overdue(now time.Time) error {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	if !c.attached {
		return nil
	}
	if len(c.late.bySeq)-c.late.slow > c.window.Abandoned {
		return fmt.Errorf("it left more than %d events without an answer", c.window.Abandoned)
	}
	for _, l := range c.late.bySeq {
		if now.Sub(l.deadline) > c.window.Patience {
			return fmt.Errorf("it left an event without an answer for more than %v "+
				"after its time limit", c.window.Patience)
		}
	}
	return nil
}

// Doubt records whether the handler leaves health checks without an answer.
func (c *Consumer) Doubt(wedged bool) {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	if c.wedged != wedged { // the others may get less or more, too
		c.wedged = wedged
		c.box.grow()
	}
	c.box.share()
}

// abandon frees the place of an event whose answer nobody wants any more. box.mu is held.
func (c *Consumer) abandon(call *call) {
	c.release(call)
	c.late.add(call)
}

// release frees the place of an event that was sent. box.mu is held.
func (c *Consumer) release(call *call) {
	call.in.remove(call)
	delete(c.bySeq, call.seq)
	if c.held != nil && len(c.bySeq) == 0 {
		close(c.held)
	}
}

// Stats returns how many events wait to be sent, how many are with the handler, and totals.
func (c *Consumer) Stats() (assigned, inFlight int, counts Counts) {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	return c.assigned.n + c.slowAssigned.n, len(c.bySeq), c.counts
}
