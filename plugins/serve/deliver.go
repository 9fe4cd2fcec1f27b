package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
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
	// maxRunning bounds the events that are with the handler at once. informd's window is far
	// smaller. Events beyond the bound are answered with a retry.
	maxRunning = 4096
	// patience is how long an answer waits for others to share its message, as long as calls of
	// Handle end faster than that.
	patience = 100 * time.Microsecond
)

// Deliver runs one stream of events.
func (s *service) Deliver(server handlerpb.Handler_DeliverServer) error {
	if !s.configured.Load() || !s.shared.begin(server.Context()) {
		return status.Error(codes.FailedPrecondition,
			"events before a config was accepted, or after another one was")
	}
	defer s.shared.end()
	d := &stream{
		handler: s.handler,
		shared:  s.shared,
		epochs:  &s.epochs,
		wire:    server,
		batcher: s.batcher(),
		wake:    make(chan struct{}),
		ended:   make(chan struct{}),
		running: map[object]*call{},
		apart:   map[string]bool{},
	}
	err := d.receive()
	close(d.ended)
	d.workers.Wait() // if the stream broke, their calls are cancelled; if it ended, they finish
	return err
}

// batcher returns the handler as a handler.Batcher, or nil. A remote handler is none: a batch would
// wait for the slots of its events while it holds those of others.
func (s *service) batcher() handler.Batcher {
	if b, ok := s.handler.(handler.Batcher); ok && s.shared == nil {
		return b
	}
	return nil
}

// stream is the state of one stream of events.
//
// Workers call Handle, for one event after the other, and send the answers. Before a worker calls
// Handle, which may take long, it makes sure that another worker, the spare, will look for other
// work. So no event and no answer waits for a long call, as if each event had its
// own goroutine. But a batch of quick events costs one or two switches between goroutines instead
// of one for each event, and is answered with one message. Its many fields are one state.
type stream struct {
	handler handler.Handler
	batcher handler.Batcher // the handler, if it takes batches, or nil
	shared  *shared
	epochs  *epochs // of the process
	wire    handlerpb.Handler_DeliverServer
	workers sync.WaitGroup // as many as calls of Handle have run at once, and a spare
	wake    chan struct{}  // wakes a worker that has nothing to do
	ended   chan struct{}  // closed when no more events come

	mu      sync.Mutex       // guards the rest
	running map[object]*call // events that are not answered; at most maxRunning
	// waiting are events of running for which Handle has not been called, or that go there alone
	// after a batch.
	waiting []*call
	// apart are ids of events that were in a batch which took too long. Each goes to Handle alone
	// when it comes again. There are at most maxRunning; beyond that, none is added.
	apart map[string]bool
	// done and answers are answers that are not sent: at most one for each event that was running,
	// and one for each that was turned away, which the transport's flow control bounds.
	done     []uint64
	answers  []*handlerpb.Answer
	since    time.Time // when the first of them came
	sending  bool      // a worker sends answers, and will look for more afterwards
	hasSpare bool      // a worker is about to look for work
}

// object identifies the events that must not overlap.
type object struct {
	rule, namespace, name string
	resource              handler.Resource
}

// call is an event on its way through Handle.
type call struct {
	wire.Attempt
	own   callContext
	ctx   *callContext // own, or that of the call's batch; guarded by stream.mu
	taken bool         // shared.take succeeded
	alone bool         // goes to Handle, and into no batch; guarded by stream.mu
}

func (c *call) object() object {
	return object{c.Event.Rule, c.Event.Namespace, c.Event.Name, c.Event.Resource}
}

// receive takes events and cancels. It returns nil when informd ends its side, and an error when
// the stream breaks.
func (d *stream) receive() error {
	var req wire.Request
	for {
		err := d.wire.RecvMsg(&req)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d.begin(req.Attempts, time.Now())
		clear(req.Attempts) // the calls own what they hold
		d.cancel(req.Cancel)
	}
}

// begin queues events for a worker, or answers why they cannot be handled. Time limits count from
// now.
func (d *stream) begin(attempts []wire.Attempt, now time.Time) {
	d.mu.Lock()
	for i := range attempts {
		c := &call{Attempt: attempts[i]}
		c.own.parent, c.own.event, c.ctx = d.wire.Context(), &c.Event, &c.own
		if limit, ok := c.Limit(); ok {
			c.own.deadline = now.Add(limit)
		}
		if why := d.epochs.refuse(c.Event.Epoch); why != "" {
			d.reply(c, retry(why))
			continue
		}
		switch {
		case len(d.running) >= maxRunning:
			d.reply(c, retry("the handler has too many events at once"))
		case d.running[c.object()] != nil:
			// informd gave up on an earlier event of this object and sent the next, but Handle has
			// not returned from it.
			d.reply(c,
				retry("the handler still has an earlier event of this object, past its time limit"))
		default:
			c.alone = d.apart[c.Event.ID]
			delete(d.apart, c.Event.ID)
			d.running[c.object()] = c
			d.waiting = append(d.waiting, c)
		}
	}
	d.unlock()
}

func (d *stream) cancel(seqs []uint64) {
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

// unlock unlocks d.mu, and wakes or starts a worker if there is something to do.
func (d *stream) unlock() {
	wanted := !d.hasSpare && (len(d.waiting) > 0 || d.maySend())
	d.hasSpare = d.hasSpare || wanted
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

// work is the life of a worker, which begins as the spare.
func (d *stream) work() {
	defer d.workers.Done()
	d.mu.Lock()
	d.hasSpare = false
	for {
		switch {
		case d.maySend() && (len(d.waiting) == 0 || time.Since(d.since) > patience):
			d.send()
		case d.batch() > 1:
			d.handleBatch()
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
			d.hasSpare = false
		}
	}
}

// handleNext handles the first event that waits. d.mu is held, but not during the call.
func (d *stream) handleNext() {
	c := d.waiting[0]
	d.waiting = slices.Delete(d.waiting, 0, 1)
	d.unlock()

	returned := false
	defer func() {
		if !returned { // Handle ended this goroutine; another worker sends the answer
			d.finish(c, retry(goexit))
			d.unlock()
		}
	}()
	var a *handlerpb.Answer
	err := d.shared.take(&c.own, c.object())
	c.taken = err == nil
	switch {
	case err != nil:
		a = retry(err.Error())
	case d.shared != nil && d.wire.Context().Err() != nil:
		// Nobody receives the answer. Another endpoint may have the event by now.
		a = retry("the connection broke")
	default:
		// An event of a newer epoch may have come while this one waited.
		if why := d.epochs.refuse(c.Event.Epoch); why != "" {
			a = retry(why)
		} else {
			a = d.handle(c)
		}
	}
	returned = true
	d.finish(c, a)
}

// handle handles one event. It answers a cancelled event too: the answer tells informd that the
// handler no longer works on it.
func (d *stream) handle(c *call) *handlerpb.Answer {
	defer c.own.end()
	_, a := handle(&c.own, d.handler, c.Event)
	return a
}

// handle calls the handler for one event and returns an answer in every case, even if the call
// panics. If the event is done, it returns the actions too.
func handle(
	ctx context.Context, h handler.Handler, ev handler.Event,
) (actions []handler.Action, a *handlerpb.Answer) {
	defer func() {
		if v := recover(); v != nil {
			logPanic(ctx, "Handle", v)
			a = retry(panicReason(v))
		}
	}()
	said, err := h.Handle(ctx, ev)
	return said.Actions, answer(said, err)
}

// batch returns how many of the first events that wait may go as one batch. d.mu is held.
func (d *stream) batch() int {
	if d.batcher == nil {
		return 0
	}
	n := 0
	for n < min(len(d.waiting), handlerpb.MaxBatchEvents) && !d.waiting[n].alone {
		n++
	}
	return n
}

// handleBatch handles the first events that wait, as one batch. d.mu is held, but not during the
// call.
func (d *stream) handleBatch() {
	batch := slices.Clone(d.waiting[:d.batch()])
	d.waiting = slices.Delete(d.waiting, 0, len(batch))
	if batch = d.refuseOld(batch); len(batch) == 0 {
		return
	}
	ctx := &callContext{parent: d.wire.Context()}
	events := make([]handler.Event, len(batch))
	for i, c := range batch {
		if limit := c.own.deadline; !limit.IsZero() &&
			(ctx.deadline.IsZero() || limit.Before(ctx.deadline)) {
			ctx.deadline = limit
		}
		c.ctx, events[i] = ctx, c.Event
	}
	d.unlock()

	var results []handler.Result
	returned := false
	defer func() {
		if !returned { // HandleBatch ended this goroutine; another worker goes on
			d.mu.Lock()
			d.isolate(batch)
			d.unlock()
		}
	}()
	results = handleAll(ctx, d.batcher, events)
	returned = true
	d.mu.Lock()
	if results == nil {
		d.isolate(batch)
		return
	}
	isLate := !ctx.deadline.IsZero() && time.Now().After(ctx.deadline)
	for i, c := range batch {
		delete(d.running, c.object())
		if isLate && len(d.apart) < maxRunning {
			d.apart[c.Event.ID] = true
		}
		d.reply(c, answer(results[i].Answer, results[i].Err))
	}
}

// refuseOld answers those events of a batch that have an older epoch than others that have come
// since, and returns the rest. d.mu is held.
func (d *stream) refuseOld(batch []*call) []*call {
	return slices.DeleteFunc(batch, func(c *call) bool {
		why := d.epochs.refuse(c.Event.Epoch)
		if why != "" {
			delete(d.running, c.object())
			d.reply(c, retry(why))
		}
		return why != ""
	})
}

// isolate makes each event of a batch go to Handle alone, because HandleBatch has no results for
// them. One of them may be to blame, and must not take the others along. d.mu is held.
func (d *stream) isolate(batch []*call) {
	for _, c := range batch {
		c.alone, c.ctx = true, &c.own
	}
	d.waiting = append(batch, d.waiting...)
}

// handleAll calls the handler for a batch. It returns one result for each event, or nil if the call
// panics or returns another number of results.
func handleAll(
	ctx *callContext, b handler.Batcher, events []handler.Event,
) (results []handler.Result) {
	defer ctx.end()
	defer func() {
		if v := recover(); v != nil {
			logPanic(ctx, "HandleBatch", v, "events", ids(events))
			results = nil
		}
	}()
	results = b.HandleBatch(ctx, events)
	if len(results) != len(events) {
		slog.ErrorContext(ctx, "HandleBatch returned a wrong number of results: "+
			"each event goes to Handle alone",
			"results", len(results), "events", ids(events))
		return nil
	}
	return results
}

// ids returns the ids of events, for a log line. A batch has up to 32, and a line up to 8 KiB.
func ids(events []handler.Event) string {
	var all []string
	for _, ev := range events {
		all = append(all, ev.ID)
	}
	return wire.Text(strings.Join(all, ", "), handlerpb.MaxReasonBytes)
}

// goexit is the reason of a retry if Handle ended its goroutine.
const goexit = "the handler ended the goroutine that it was called in"

// finish answers an event that was handled, and locks d.mu. It frees the object before informd can
// get the answer and send the object's next event.
func (d *stream) finish(c *call, a *handlerpb.Answer) {
	d.mu.Lock()
	delete(d.running, c.object())
	if c.taken {
		d.shared.free(c.object())
	}
	d.reply(c, a)
}

// reply answers an event; a nil answer is done. d.mu is held.
func (d *stream) reply(c *call, a *handlerpb.Answer) {
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

// maySend reports whether there are answers that nobody is sending. d.mu is held.
func (d *stream) maySend() bool {
	return !d.sending && len(d.done)+len(d.answers) > 0
}

// send sends a batch of answers. d.mu is held, but not while it sends.
func (d *stream) send() {
	resp := d.take()
	d.sending = true
	d.mu.Unlock()
	err := d.wire.Send(resp)
	d.mu.Lock()
	d.sending = err != nil // a broken stream: receive ends, and nobody sends again
}

// take returns the next batch of answers. d.mu is held.
func (d *stream) take() *handlerpb.DeliverResponse {
	resp := &handlerpb.DeliverResponse{Done: d.done}
	d.done = nil
	n, size := 0, 0
	for n < len(d.answers) && (n == 0 || size < handlerpb.MaxBatchBytes) {
		size += proto.Size(d.answers[n])
		n++
	}
	if n > 1 && size > handlerpb.MaxBatchBytes {
		n-- // the one that crossed the bound goes with the next batch
	}
	resp.Answers, d.answers = d.answers[:n:n], d.answers[n:]
	if len(d.answers) == 0 {
		d.answers = nil
	}
	return resp
}
