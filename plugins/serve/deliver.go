package serve

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// maxRunning bounds the calls of Handle that run at once. informd keeps to its window, which is far smaller; what comes
// beyond the bound is answered with a retry.
const maxRunning = 4096

// Deliver runs one stream of events: each in a goroutine of its own, answered as it ends.
func (s *service) Deliver(stream handlerpb.Handler_DeliverServer) error {
	if !s.configured.Load() {
		return status.Error(codes.FailedPrecondition, "events before a config was accepted")
	}
	d := &delivery{
		handler: s.handler,
		ctx:     stream.Context(),
		running: map[uint64]context.CancelFunc{},
		busy:    map[object]bool{},
		wake:    make(chan struct{}, 1),
	}
	sent := make(chan error, 1)
	go func() { sent <- d.send(stream) }()

	err := d.receive(stream)
	d.calls.Wait() // a stream that broke has cancelled them; one that ended lets them finish
	d.close()
	return errors.Join(err, <-sent)
}

// delivery is the state of one stream.
type delivery struct {
	handler handler.Handler
	ctx     context.Context // the stream's; gRPC hands it over in this form
	calls   sync.WaitGroup  // of Handle

	mu      sync.Mutex
	running map[uint64]context.CancelFunc // by sequence number; at most maxRunning
	busy    map[object]bool               // of which objects; as many at most
	done    []uint64                      // answers not sent yet: at most one for each running call, and for each
	answers []*handlerpb.Answer           // event that was turned away, which stops at the transport's flow control
	closed  bool                          // no answer will be added

	wake chan struct{} // tells send that there is something; one token is enough
}

// object is what events must not overlap on.
type object struct{ rule, namespace, name string }

// receive takes events and cancels until informd ends its side (nil) or the stream breaks.
func (d *delivery) receive(stream handlerpb.Handler_DeliverServer) error {
	var req request
	for {
		err := stream.RecvMsg(&req)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, ev := range req.events {
			d.start(ev)
		}
		for _, seq := range req.cancel {
			d.cancel(seq)
		}
	}
}

// start begins to handle an event, or answers why it cannot.
func (d *delivery) start(ev event) {
	key := object{ev.Rule, ev.Namespace, ev.Name}
	ctx, cancel := withLimit(d.ctx, ev.limit)

	d.mu.Lock()
	refusal := ""
	switch {
	case len(d.running) >= maxRunning:
		refusal = "the handler has too many events at once"
	case d.busy[key]:
		// informd gave up on an earlier event of this object and sent the next, but Handle has not returned from it.
		refusal = "the handler still has an earlier event of this object, past its time limit"
	default:
		d.running[ev.seq] = cancel
		d.busy[key] = true
	}
	d.mu.Unlock()

	if refusal != "" {
		cancel()
		d.reply(ev.seq, retry(refusal))
		return
	}
	d.calls.Add(1)
	go d.handle(ctx, cancel, key, ev)
}

// withLimit ends ctx after limit, if there is one.
func withLimit(ctx context.Context, limit limit) (context.Context, context.CancelFunc) {
	if !limit.set {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit.duration())
}

// handle calls the handler for one event and answers it in every case, also when the call panics or ends its goroutine.
// A cancelled event is answered too: it tells informd that the handler has let go of it.
func (d *delivery) handle(ctx context.Context, cancel context.CancelFunc, key object, ev event) {
	defer d.calls.Done()
	var result *handlerpb.Answer
	returned := false
	defer func() {
		if v := recover(); v != nil {
			logPanic("Handle", v)
			result = retry(panicReason(v))
		} else if !returned {
			result = retry("the handler ended the goroutine that it was called in")
		}
		// The object is free before informd can hear of it and send the next of its events.
		d.mu.Lock()
		delete(d.running, ev.seq)
		delete(d.busy, key)
		d.mu.Unlock()
		cancel()
		d.reply(ev.seq, result)
	}()
	result = answer(d.handler.Handle(ctx, ev.Event))
	returned = true
}

func (d *delivery) cancel(seq uint64) {
	d.mu.Lock()
	cancel := d.running[seq]
	d.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// reply queues an answer; a nil one is done.
func (d *delivery) reply(seq uint64, a *handlerpb.Answer) {
	d.mu.Lock()
	if a == nil {
		d.done = append(d.done, seq)
	} else {
		a.Seq = seq
		d.answers = append(d.answers, a)
	}
	d.mu.Unlock()
	d.kick()
}

func (d *delivery) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.kick()
}

func (d *delivery) kick() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// send sends answers: at once when nothing is being sent, else together with what has come meanwhile.
func (d *delivery) send(stream handlerpb.Handler_DeliverServer) error {
	for {
		select {
		case <-d.wake:
			runtime.Gosched() // others who are about to answer make the batch larger, at no delay
		case <-d.ctx.Done():
			return d.ctx.Err()
		}
		for {
			resp, closed := d.take()
			if resp == nil && closed {
				return nil
			}
			if resp == nil {
				break
			}
			if err := stream.Send(resp); err != nil {
				return err
			}
		}
	}
}

// take returns the next batch of answers, or nil if there is none.
func (d *delivery) take() (resp *handlerpb.DeliverResponse, closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.done) == 0 && len(d.answers) == 0 {
		return nil, d.closed
	}
	resp = &handlerpb.DeliverResponse{Done: d.done}
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
	return resp, d.closed
}
