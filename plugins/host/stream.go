package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// stream carries one session's deliveries, beside its health checks.
type stream struct {
	*session
	deliveries *deliveries
	health     func(problem string) // told what the handler says of its health; "" is healthy
	wedged     func(reason string)  // told that it gives no answers, and why; "" is that it does
	answers    []outcome            // receive's; empty between messages
}

// deliver runs the stream until ctx ends or another process is to take over, and drains then (nil), or until the process
// is of no use any more (an error that says why). Callers whose events are with the process then get handler.ErrLost.
// next is the process that is to take over, if there is one. drained tells that this one has let go of everything.
func (s *stream) deliver(ctx context.Context, takeovers <-chan *takeover) (next *takeover, drained bool, err error) {
	defer s.abort()
	s.deliveries.attach(s.window())

	serving, finish := context.WithCancel(ctx)
	defer finish()
	g, working := errgroup.WithContext(serving)
	g.Go(func() error { return s.send(serving, working) })
	g.Go(func() error { return s.receive(working) })
	g.Go(func() error { return s.expire(working) })
	g.Go(func() error { return s.checkHealth(working) })
	why := errStopping
	for working.Err() == nil && next == nil {
		select {
		case <-working.Done():
		case t := <-takeovers:
			if next = s.makeWay(working, t); next != nil && working.Err() == nil {
				why = errSuperseded
				finish()
			}
		case <-s.leaving():
			select {
			case <-s.deliveries.hold():
				why = errLeaving
				finish()
			case <-working.Done():
			}
		}
	}
	if serving.Err() == nil {
		s.abort()
		err := g.Wait()
		s.deliveries.fail(lost(err))
		return next, false, err
	}

	drain, cancel := context.WithTimeout(s.whole, s.opts.DrainTimeout)
	defer cancel()
	context.AfterFunc(drain, s.abort)
	_ = g.Wait() // the handler lets go of its last events
	s.deliveries.detach(lost(why))
	if why == errLeaving {
		return nil, true, why // it drains by itself
	}
	if _, err := s.api.Drain(drain, &handlerpb.DrainRequest{}); err != nil && status.Code(err) != codes.Unimplemented {
		s.log.Warn("handler did not drain", "error", s.explain("drain", s.opts.DrainTimeout, err))
	}
	return next, drain.Err() == nil, nil
}

// makeWay lets the process answer what is with it, unless it fails, and sends it nothing more. It returns next, or nil if
// next fails: that is ended then, and everything goes on as before.
func (s *stream) makeWay(working context.Context, next *takeover) *takeover {
	select {
	case <-s.deliveries.hold(): // every event has an answer, or is past its time limit
	case <-next.session.exited():
	case <-working.Done():
		return next
	}
	if err := next.session.gone(); err != nil {
		s.deliveries.resume()
		next.abandon(err)
		return nil
	}
	return next
}

// errStopping is why events are lost at the end of a Host's run. Whoever ends it lets deliveries finish before.
var errStopping = errors.New("informd is stopping it")

// errLeaving is why a session ends whose peer asked for that. Nothing is lost to it.
var errLeaving = errors.New("it is going away")

func lost(why error) error { return fmt.Errorf("%w: %w", handler.ErrLost, why) }

// window is what may be with the process: the least of what the operator and the handler allow.
func (s *stream) window() window {
	w := window{events: limit(s.spec, s.desc), bytes: s.desc.WindowBytes, patience: s.opts.LateTimeout}
	if w.patience == 0 {
		w.patience = max(time.Minute, 4*s.spec.Timeout)
	}
	w.abandoned = max(16, 2*w.events)
	return w
}

// send sends events as there is room for them: at once when nothing is being sent, else together with what has come
// meanwhile. In the end it takes back what is not answered.
//
// A process that does not read its stream would block it for ever, while it can be well by all other signs: past twice
// the time limit, when all that was sent has long expired, it is ended.
func (s *stream) send(ctx, working context.Context) error {
	enc := newEncoder(s.spec.Timeout)
	patience := 2 * s.spec.Timeout
	blocked := time.AfterFunc(patience, func() {
		s.kill(fmt.Errorf("it did not take an event from its stream within %v", patience))
	})
	blocked.Stop() // it runs during a Send only
	for {
		if err := s.deliveries.overdue(time.Now()); err != nil {
			return err
		}
		if req := s.deliveries.take(time.Now()); req != nil {
			blocked.Reset(patience)
			err := s.grpc.SendMsg(enc.message(req))
			blocked.Stop()
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("send events: %w", err)
			} else if err != nil {
				<-working.Done() // the stream broke; receive knows why
			}
		} else {
			select {
			case <-s.deliveries.wake:
			case <-working.Done():
			}
		}
		if working.Err() == nil {
			continue
		}
		if ctx.Err() != nil {
			if seqs := s.deliveries.detach(lost(errStopping)); len(seqs) > 0 {
				_ = s.grpc.SendMsg(enc.message(&batch{cancels: seqs}))
			}
			_ = s.grpc.CloseSend()
		}
		return nil
	}
}

// receive hands answers to those who wait for them.
func (s *stream) receive(working context.Context) error {
	var warned time.Time
	for {
		resp, err := s.grpc.Recv()
		if err != nil {
			return s.broken(working, err)
		}
		stray := s.complete(resp)
		if stray == len(resp.GetDone())+len(resp.GetAnswers()) { // it may say nothing without end
			sleep(working, emptyPause)
		}
		if stray > 0 && time.Since(warned) > strayPause {
			warned = time.Now()
			s.log.Warn("handler answers events that are not with it; ignored", "answers", stray)
		}
	}
}

// complete takes a message of answers, a few at a time: it may have millions.
func (s *stream) complete(resp *handlerpb.DeliverResponse) (stray int) {
	for seqs := range slices.Chunk(resp.GetDone(), handlerpb.MaxBatchEvents) {
		s.answers = s.answers[:0]
		for _, seq := range seqs {
			s.answers = append(s.answers, outcome{seq: seq})
		}
		stray += s.deliveries.complete(s.answers)
	}
	for answers := range slices.Chunk(resp.GetAnswers(), handlerpb.MaxBatchEvents) {
		s.answers = s.answers[:0]
		for _, a := range answers {
			answer, err := answerResult(a)
			s.answers = append(s.answers, outcome{seq: a.GetSeq(), answer: answer, err: err})
		}
		stray += s.deliveries.complete(s.answers)
	}
	clear(s.answers[:cap(s.answers)])
	return stray
}

// emptyPause slows down a process whose messages hold no answer that was asked for.
const emptyPause = 5 * time.Millisecond

// strayPause is the least time between two complaints about answers that nobody asked for.
const strayPause = time.Minute

// broken explains the end of the stream, if it is not informd's own doing.
func (s *stream) broken(working context.Context, err error) error {
	if working.Err() != nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return s.failure(errors.New("it ended the stream of deliveries"))
	}
	if code := status.Code(err); code == codes.Unavailable || code == codes.Canceled {
		return s.failure(errors.New("the stream of deliveries broke"))
	}
	return s.failure(s.explain("deliver", 0, err))
}

// expire ends events at their time limits, and a process that leaves too many unanswered even then.
func (s *stream) expire(working context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-working.Done():
			return nil
		case <-timer.C:
			now := time.Now()
			timer.Reset(time.Until(s.deliveries.expire(now)))
			if err := s.deliveries.overdue(now); err != nil {
				return err
			}
		}
	}
}

// maxMisses is how many health checks in a row a process may leave without an answer.
const maxMisses = 2

// checkHealth asks the process regularly how it is. That it answers at all is what matters: one that does not is wedged, is
// asked again at once, and ended if it misses that too.
func (s *stream) checkHealth(working context.Context) error {
	ticker := time.NewTicker(s.opts.HealthInterval)
	defer ticker.Stop()
	for misses := 0; ; {
		problem, err := s.askHealth(working)
		switch {
		case working.Err() != nil:
			return nil
		case err == nil:
			misses = 0
			s.wedged("")
			s.health(problem)
		case s.gone() != nil: // that is why there is none
			return s.gone()
		default:
			if misses++; misses == maxMisses {
				return fmt.Errorf("it hangs: %d health checks in a row had no answer within %v", maxMisses, s.opts.HealthTimeout)
			}
			s.wedged(fmt.Sprintf("a health check had no answer within %v", s.opts.HealthTimeout))
			continue
		}
		select {
		case <-working.Done():
			return nil
		case <-s.leaving(): // it takes no calls any more; what is with it has its time limits
			<-working.Done()
			return nil
		case <-ticker.C:
		}
	}
}

// askHealth returns an error only if there was no answer, in time or at all; a handler that knows no Health is healthy.
func (s *session) askHealth(working context.Context) (problem string, err error) {
	ctx, cancel := context.WithTimeout(working, s.opts.HealthTimeout)
	defer cancel()
	resp, err := s.api.Health(ctx, &handlerpb.HealthRequest{})
	switch code := status.Code(err); {
	case code == codes.OK:
		return printable(resp.GetProblem(), handlerpb.MaxReasonBytes), nil
	case code == codes.Unimplemented:
		return "", nil
	case ctx.Err() != nil:
		return "", err
	case code == codes.Unavailable || code == codes.Canceled: // the connection's end, or a handler's own words
		select {
		case <-s.exited():
			return "", err
		case <-working.Done():
			return "", err
		case <-s.leaving():
			return "", nil
		case <-time.After(exitNews):
		}
	}
	return printable(status.Convert(err).Message(), handlerpb.MaxReasonBytes), nil
}
