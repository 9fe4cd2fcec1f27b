package serve

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

const (
	// maxRunning bounds the events that are with the handler at once. informd keeps to its window, which is far smaller;
	// what comes beyond the bound is answered with a retry.
	maxRunning = 4096
	// patience is how long an answer waits for others to go with it, while calls of Handle end faster than that.
	patience = 100 * time.Microsecond
)

// Deliver runs one stream of events.
func (s *service) Deliver(stream handlerpb.Handler_DeliverServer) error {
	if !s.configured.Load() || !s.shared.begin(stream.Context()) {
		return status.Error(codes.FailedPrecondition, "events before a config was accepted, or after another one was")
	}
	defer s.shared.end()
	d := &delivery{
		handler: s.handler,
		shared:  s.shared,
		stream:  stream,
		wake:    make(chan struct{}),
		ended:   make(chan struct{}),
		running: map[object]*call{},
	}
	err := d.receive()
	close(d.ended)
	d.workers.Wait() // a stream that broke has cancelled their calls; one that ended lets them finish
	return err
}

// delivery is the state of one stream.
//
// Workers call Handle, for one event after the other, and send the answers. Before a worker calls Handle, which may take
// long, it sees to it that another one, the spare, is about to look what else there is to do. So no event and no answer
// waits for a call that takes long, as if each event had a goroutine of its own; but a batch of events that take no time
// costs one or two switches between goroutines, not one for each, and is answered with one message.
type delivery struct {
	handler handler.Handler
	shared  *shared
	stream  handlerpb.Handler_DeliverServer
	workers sync.WaitGroup // as many as calls of Handle have run at once, and a spare
	wake    chan struct{}  // wakes a worker that has nothing to do
	ended   chan struct{}  // closed when no more events come

	mu      sync.Mutex
	running map[object]*call    // events that are not answered; at most maxRunning
	waiting []*call             // of these, those that Handle has not been called for
	done    []uint64            // answers that are not sent: at most one for each event that was running, and for each
	answers []*handlerpb.Answer // that was turned away, which stops at the transport's flow control
	since   time.Time           // when the first of them came
	sending bool                // a worker sends answers, and looks for more after that
	spare   bool                // a worker is about to look what there is to do
}

// object is what events must not overlap on.
type object struct {
	rule, namespace, name string
	resource              handler.Resource
}

// call is an event on its way through Handle.
type call struct {
	wire.Attempt
	ctx   callContext
	taken bool // see shared.take
}

func (c *call) object() object {
	return object{c.Event.Rule, c.Event.Namespace, c.Event.Name, c.Event.Resource}
}

// receive takes events and cancels until informd ends its side (nil) or the stream breaks.
func (d *delivery) receive() error {
	var req wire.Request
	for {
		err := d.stream.RecvMsg(&req)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d.begin(req.Attempts, time.Now())
		clear(req.Attempts) // what they hold is the calls' alone, and goes with them
		d.cancel(req.Cancel)
	}
}

// begin lets events wait for a worker, or answers why they cannot be handled. Time limits count from now.
func (d *delivery) begin(attempts []wire.Attempt, now time.Time) {
	d.mu.Lock()
	for i := range attempts {
		c := &call{Attempt: attempts[i]}
		c.ctx.parent = d.stream.Context()
		if limit, ok := c.Limit(); ok {
			c.ctx.deadline = now.Add(limit)
		}
		switch {
		case len(d.running) >= maxRunning:
			d.reply(c, retry("the handler has too many events at once"))
		case d.running[c.object()] != nil:
			// informd gave up on an earlier event of this object and sent the next, but Handle has not returned from it.
			d.reply(c, retry("the handler still has an earlier event of this object, past its time limit"))
		default:
			d.running[c.object()] = c
			d.waiting = append(d.waiting, c)
		}
	}
	d.unlock()
}

func (d *delivery) cancel(seqs []uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, seq := range seqs {
		for _, c := range d.running {
			if c.Seq == seq {
				c.ctx.end()
			}
		}
	}
}

// unlock gives d.mu back, and has a worker see to what there is to do.
func (d *delivery) unlock() {
	wanted := !d.spare && (len(d.waiting) > 0 || d.maySend())
	d.spare = d.spare || wanted
	d.mu.Unlock()
	if !wanted {
		return
	}
	select {
	case d.wake <- struct{}{}:
	default:
		d.workers.Add(1)
		go d.work()
	}
}

// work is the life of a worker, which begins as the spare one.
func (d *delivery) work() {
	defer d.workers.Done()
	d.mu.Lock()
	d.spare = false
	for {
		switch {
		case d.maySend() && (len(d.waiting) == 0 || time.Since(d.since) > patience):
			d.send()
		case len(d.waiting) > 0:
			d.handleNext()
		default:
			d.mu.Unlock()
			select {
			case <-d.wake:
			case <-d.ended:
				return
			}
			d.mu.Lock()
			d.spare = false
		}
	}
}

// handleNext handles an event that waits. d.mu is held, and given up meanwhile.
func (d *delivery) handleNext() {
	c := d.waiting[0]
	d.waiting = slices.Delete(d.waiting, 0, 1)
	d.unlock()

	returned := false
	defer func() {
		if !returned { // Handle ended the goroutine, which is left to die; others see to the answer
			d.finish(c, retry(goexit))
			d.unlock()
		}
	}()
	var a *handlerpb.Answer
	err := d.shared.take(&c.ctx, c.object())
	c.taken = err == nil
	switch {
	case err != nil:
		a = retry(err.Error())
	case d.shared != nil && d.stream.Context().Err() != nil:
		a = retry("the connection broke") // nobody hears it; another endpoint may have the event by now
	default:
		a = d.handle(c)
	}
	returned = true
	d.finish(c, a)
}

// handle has one event handled. A cancelled event is answered too: it tells informd that the handler has let go of it.
func (d *delivery) handle(c *call) *handlerpb.Answer {
	defer c.ctx.end()
	_, a := handle(&c.ctx, d.handler, c.Event)
	return a
}

// handle calls the handler for one event and has an answer in every case, also when the call panics; and the actions in
// it, if it is done.
func handle(ctx context.Context, h handler.Handler, ev handler.Event) (actions []handler.Action, a *handlerpb.Answer) {
	defer func() {
		if v := recover(); v != nil {
			logPanic("Handle", v)
			a = retry(panicReason(v))
		}
	}()
	said, err := h.Handle(ctx, ev)
	return said.Actions, answer(said, err)
}

// goexit is why an event is retried whose call of Handle never returned.
const goexit = "the handler ended the goroutine that it was called in"

// finish answers an event that was handled, and locks d.mu. The object is free before informd can hear of it and send
// the next of its events.
func (d *delivery) finish(c *call, a *handlerpb.Answer) {
	d.mu.Lock()
	delete(d.running, c.object())
	if c.taken {
		d.shared.free(c.object())
	}
	d.reply(c, a)
}

// reply answers an event; a nil answer is done. d.mu is held.
func (d *delivery) reply(c *call, a *handlerpb.Answer) {
	if len(d.done) == 0 && len(d.answers) == 0 {
		d.since = time.Now()
	}
	if a == nil {
		d.done = append(d.done, c.Seq)
		return
	}
	a.Seq = c.Seq
	d.answers = append(d.answers, a)
}

// maySend tells whether there are answers that nobody is about to send. d.mu is held.
func (d *delivery) maySend() bool {
	return !d.sending && len(d.done)+len(d.answers) > 0
}

// send sends a batch of answers. d.mu is held, and given up meanwhile.
func (d *delivery) send() {
	resp := d.take()
	d.sending = true
	d.mu.Unlock()
	err := d.stream.Send(resp)
	d.mu.Lock()
	d.sending = err != nil // the stream is broken, which ends receive, and nobody sends any more
}

// take returns the next batch of answers. d.mu is held.
func (d *delivery) take() *handlerpb.DeliverResponse {
	resp := &handlerpb.DeliverResponse{Done: d.done}
	d.done = nil
	n, size := 0, 0
	for n < len(d.answers) && (n == 0 || size < handlerpb.MaxBatchBytes) {
		size += proto.Size(d.answers[n])
		n++
	}
	if n > 1 && size > handlerpb.MaxBatchBytes {
		n-- // the one that crossed the bound goes with the next
	}
	resp.Answers, d.answers = d.answers[:n:n], d.answers[n:]
	if len(d.answers) == 0 {
		d.answers = nil
	}
	return resp
}
