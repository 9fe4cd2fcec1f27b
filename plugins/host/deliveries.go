package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// deliveries holds the events on their way between the callers of Handle and the process. It lives as long as its Host:
// what waits, waits across processes; what was sent belongs to the process that it was sent to.
//
// It is bookkeeping only: it does not send, and is told the time. All methods may be called concurrently.
type deliveries struct {
	limit *durationpb.Duration // of every event
	wake  chan struct{}        // tells the sender that there may be something to take; one token is enough

	mu       sync.Mutex
	stopped  error               // set by stop: nothing is delivered any more
	attached bool                // there is a process to send to
	window   window              // of that process
	waiting  fifo                // not sent; as many as there are callers of Handle
	sent     fifo                // sent and not answered, oldest first, so that deadlines ascend; within the window
	bySeq    map[uint64]*call    // the same
	late     map[uint64]struct{} // given up on, not answered yet; past window.abandoned the process is ended
	cancels  []uint64            // of late, those that the process has not been told of
	seq      uint64              // of the last event sent on this stream
	bytes    int64               // of what is in sent
	counts   Counts
}

// window is how much may be with a process at once.
type window struct {
	events    int
	bytes     int64 // a larger event goes alone
	abandoned int   // of events that were given up on; more than that, and the process is beyond hope
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

// call is one event, from Handle's call to its return.
type call struct {
	event    handlerpb.Event
	size     int64
	deadline time.Time   // since it was sent
	done     chan result // holds the one result, so that nobody waits to give it
	in       *fifo       // the list that the call is in; nil once it has its result or was given up by the caller
	prev     *call
	next     *call
}

type result struct {
	answer handler.Answer
	err    error
}

// errStopped is what callers get whose event was never sent, when the Host ends.
var errStopped = errors.New("handler is stopped")

// maxEventBytes is what one event may measure, with room for its other fields within a message.
const maxEventBytes = handlerpb.MaxRequestBytes - 1<<20

func newDeliveries(limit time.Duration) *deliveries {
	return &deliveries{limit: durationpb.New(limit), wake: make(chan struct{}, 1), bySeq: map[uint64]*call{}, late: map[uint64]struct{}{}}
}

// do delivers one event: it waits for room, for the answer or for one of the reasons why there will be none.
func (d *deliveries) do(ctx context.Context, ev *handler.Event) (handler.Answer, error) {
	if err := ctx.Err(); err != nil {
		return handler.Answer{}, err
	}
	c := &call{done: make(chan result, 1)}
	c.size = int64(len(ev.Object) + len(ev.Old) + len(ev.Payload))
	if c.size > maxEventBytes {
		return handler.Answer{}, handler.Reject(fmt.Errorf("the event has %d bytes, more than the %d that can be delivered", c.size, int64(maxEventBytes)))
	}
	d.fill(&c.event, ev)

	d.mu.Lock()
	if err := d.stopped; err != nil {
		d.mu.Unlock()
		return handler.Answer{}, err
	}
	d.waiting.push(c)
	d.mu.Unlock()
	d.kick()

	select {
	case r := <-c.done:
		return r.answer, r.err
	case <-ctx.Done():
	}
	d.mu.Lock()
	if c.in == &d.waiting {
		d.waiting.remove(c)
	} else if c.in == &d.sent {
		d.abandon(c)
	}
	d.mu.Unlock()
	d.kick()
	select {
	case r := <-c.done: // it came at the same moment
		return r.answer, r.err
	default:
		return handler.Answer{}, ctx.Err()
	}
}

// attach begins a stream to a new process.
func (d *deliveries) attach(w window) {
	d.mu.Lock()
	d.attached, d.window, d.seq = true, w, 0
	d.mu.Unlock()
	d.kick()
}

// detach ends the stream. Callers whose event was sent and not answered get err; their sequence numbers are returned.
// What was not sent waits for the next process.
func (d *deliveries) detach(err error) []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var seqs []uint64
	for c := d.sent.head; c != nil; c = d.sent.head {
		seqs = append(seqs, c.event.Seq)
		d.finish(c, result{err: err})
		d.counts.Lost++
	}
	d.attached, d.cancels = false, nil
	clear(d.late)
	return seqs
}

// stop ends everything: whoever waits, and whoever comes, gets err.
func (d *deliveries) stop(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = err
	for c := d.waiting.head; c != nil; c = d.waiting.head {
		d.waiting.remove(c)
		c.done <- result{err: err}
	}
}

// take returns the next message to send, or nil if there is nothing that may be sent now. Time limits count from now.
func (d *deliveries) take(now time.Time) *handlerpb.DeliverRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.attached {
		return nil
	}
	var req *handlerpb.DeliverRequest
	if len(d.cancels) > 0 {
		req, d.cancels = &handlerpb.DeliverRequest{Cancel: d.cancels}, nil
	}
	deadline := now.Add(d.limit.AsDuration())
	size := int64(0)
	for c := d.waiting.head; c != nil; c = d.waiting.head {
		if d.sent.n >= d.window.events || d.sent.n > 0 && d.bytes+c.size > d.window.bytes {
			break
		}
		if req == nil {
			req = &handlerpb.DeliverRequest{}
		}
		if n := len(req.Events); n == handlerpb.MaxBatchEvents || n > 0 && size+c.size > handlerpb.MaxBatchBytes {
			break
		}
		d.waiting.remove(c)
		d.seq++
		c.event.Seq, c.deadline = d.seq, deadline
		d.sent.push(c)
		d.bySeq[d.seq] = c
		d.bytes += c.size
		d.counts.Sent++
		size += c.size
		req.Events = append(req.Events, &c.event)
	}
	if len(req.GetEvents()) > 0 {
		d.counts.Batches++
	}
	return req
}

// complete gives an event its result. It reports whether the answer is one that was still wanted, or at least known.
func (d *deliveries) complete(seq uint64, r result) (known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.bySeq[seq]; c != nil {
		d.counts.Answered++
		d.finish(c, r)
		return true
	}
	if _, ok := d.late[seq]; ok || !d.attached { // when the stream is ending, all that was with the process was given up on
		delete(d.late, seq)
		d.counts.Late++
		return true
	}
	d.counts.Unknown++
	return false
}

// expire gives up on events whose time is over, and says when to look again.
func (d *deliveries) expire(now time.Time) (next time.Time) {
	d.mu.Lock()
	limit := d.limit.AsDuration()
	next = now.Add(limit) // what is sent from now on is due no earlier
	for c := d.sent.head; c != nil; c = d.sent.head {
		if c.deadline.After(now) {
			next = c.deadline
			break
		}
		d.counts.TimedOut++
		c.done <- result{err: fmt.Errorf("no answer within the time limit of %v", limit)}
		d.abandon(c)
	}
	d.mu.Unlock()
	d.kick()
	return next
}

// overdue tells whether the process leaves too many events unanswered to be of use.
func (d *deliveries) overdue() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attached && len(d.late) > d.window.abandoned {
		return fmt.Errorf("it left more than %d events without an answer", d.window.abandoned)
	}
	return nil
}

// abandon frees the place of an event whose answer is no longer wanted. d.mu is held.
func (d *deliveries) abandon(c *call) {
	d.release(c)
	d.late[c.event.Seq] = struct{}{}
	d.cancels = append(d.cancels, c.event.Seq)
}

// finish hands over a result. d.mu is held.
func (d *deliveries) finish(c *call, r result) {
	d.release(c)
	c.done <- r
	if d.waiting.n > 0 {
		d.kick()
	}
}

func (d *deliveries) release(c *call) {
	d.sent.remove(c)
	delete(d.bySeq, c.event.Seq)
	d.bytes -= c.size
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

// fill puts an event into the protocol's form. The JSON is not copied.
func (d *deliveries) fill(p *handlerpb.Event, ev *handler.Event) {
	p.Id, p.Rule, p.Event = valid(ev.ID), valid(ev.Rule), valid(ev.Event)
	p.Attempt = uint32(max(1, ev.Attempt))
	p.Resource = &handlerpb.Resource{
		Group: valid(ev.Resource.Group), Version: valid(ev.Resource.Version), Resource: valid(ev.Resource.Resource),
	}
	p.Namespace, p.Name, p.Uid, p.ResourceVersion = valid(ev.Namespace), valid(ev.Name), valid(ev.UID), valid(ev.ResourceVersion)
	p.Object, p.Old, p.Payload = ev.Object, ev.Old, ev.Payload
	p.TimeLimit = d.limit
}

// valid is s, which protobuf insists to be UTF-8: one string that is not would break the stream for all.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

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
