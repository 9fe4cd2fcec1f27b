package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host/outbox"
)

// Observer receives reports about the handler's condition. Its functions are called from one
// goroutine and must not block.
type Observer struct {
	Health func(problem string) // what the handler reports; empty: it is well
	Wedged func(reason string)  // why it counts as wedged; empty: it answers again
}

// delivering is the state of one Deliver.
type delivering struct {
	*Session
	consumer *outbox.Consumer
	observer Observer
	answers  []outbox.Outcome // scratch of receive; empty between messages
}

// Deliver serves the consumer, which was attached with [Session.Window], over the open stream. It
// returns in one of three cases:
//   - ctx ended, or a successor takes over: the handler was drained. next is the successor, or nil.
//     drained says that the handler let go of everything in time.
//   - The peer asked for no more events: err is [ErrLeaving], and drained is true.
//   - The handler failed: err says why. next may be a successor that is to take over.
//
// Events that are with the handler at its end get handler.ErrLost.
func (s *Session) Deliver(
	ctx context.Context, consumer *outbox.Consumer, successors <-chan *Successor, observer Observer,
) (next *Successor, drained bool, err error) {
	d := &delivering{Session: s, consumer: consumer, observer: observer}
	return d.run(ctx, successors)
}

func (s *delivering) run(
	ctx context.Context, successors <-chan *Successor,
) (next *Successor, drained bool, err error) {
	defer s.abort()
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
		case successor := <-successors:
			if next = s.makeWay(working, successor); next != nil && working.Err() == nil {
				why = errSuperseded
				finish()
			}
		case <-s.Leaving():
			select {
			case <-s.consumer.Hold():
				why = ErrLeaving
				finish()
			case <-working.Done():
			}
		}
	}
	if serving.Err() == nil { // it failed
		s.abort()
		err := g.Wait()
		s.consumer.Fail(outbox.Lost(s.withLastWords(err)))
		return next, false, err
	}

	drain, cancel := context.WithTimeout(s.whole, s.terms.DrainTimeout)
	defer cancel()
	context.AfterFunc(drain, s.abort)
	_ = g.Wait() // the handler answers its last events
	s.consumer.Detach(outbox.Lost(why))
	if why == ErrLeaving {
		return nil, true, why // it drains by itself
	}
	_, err = s.api.Drain(drain, &handlerpb.DrainRequest{})
	if err != nil && status.Code(err) != codes.Unimplemented {
		s.log.Warn("handler did not drain", "error", s.explain("drain", s.terms.DrainTimeout, err))
	}
	return next, drain.Err() == nil, nil
}

// maxLastWords bounds the bytes of the lines that a loss quotes.
const maxLastWords = 600

// withLastWords adds to err what the peer wrote last on standard error: for a dead letter, which
// outlives the process and its log. It leaves out the very last line if err quotes that already.
func (s *Session) withLastWords(err error) error {
	lines, which := s.LastLines(), "its last lines"
	if n := len(lines); n > 0 {
		last := strconv.Quote(strings.TrimSpace(lines[n-1]))
		if strings.Contains(err.Error(), last) {
			lines, which = lines[:n-1], "before it"
		}
	}
	first, size := len(lines), 0
	for first > 0 && size+len(lines[first-1]) <= maxLastWords {
		first--
		size += len(lines[first])
	}
	if first == len(lines) {
		return err
	}
	return fmt.Errorf("%w; %s: %s", err, which, strings.Join(lines[first:], " | "))
}

// makeWay waits until the handler has answered what it has, and sends it nothing more. It returns
// next, or nil if next ends meanwhile: deliveries go on then.
func (s *delivering) makeWay(working context.Context, next *Successor) *Successor {
	select {
	case <-s.consumer.Hold(): // every event has an answer, or is past its time limit
	case <-next.Exited():
	case <-working.Done():
		return next
	}
	if err := next.Gone(); err != nil {
		s.consumer.Resume()
		next.Abandon(err)
		return nil
	}
	return next
}

// ErrLeaving says that a session ended because its peer asked for that. No event is lost.
var ErrLeaving = errors.New("it is going away")

var (
	errStopping   = errors.New("informd is stopping it")
	errSuperseded = errors.New("another process took over")
)

// Window returns what may be with the handler.
func (s *Session) Window() outbox.Window {
	w := s.description.Window(s.terms.Concurrency)
	if w.Patience = s.terms.LateTimeout; w.Patience == 0 {
		w.Patience = max(time.Minute, 4*s.terms.Timeout)
	}
	w.Last = s.description.last(s.terms.Attempts)
	return w
}

// send sends events as long as the window has room. What arrives while a message is being sent goes
// out together. At the end it cancels what is not answered.
//
// A handler that does not read its stream would block send for ever, and may look healthy
// otherwise. It is ended after twice the time limit, when everything that was sent has long
// expired.
func (s *delivering) send(ctx, working context.Context) error {
	enc := wire.NewEncoder(s.terms.Timeout)
	patience := 2 * s.terms.Timeout
	blocked := time.AfterFunc(patience, func() {
		s.Kill(fmt.Errorf("it did not take an event from its stream within %v", patience))
	})
	blocked.Stop() // it runs during SendMsg only
	for {
		if err := s.consumer.Overdue(time.Now()); err != nil {
			return err
		}
		if batch := s.consumer.Take(time.Now()); batch != nil {
			blocked.Reset(patience)
			err := s.stream.SendMsg(encode(enc, batch))
			blocked.Stop()
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("send events: %w", err)
			} else if err != nil {
				<-working.Done() // the stream broke; receive knows why
			}
		} else {
			select {
			case <-s.consumer.Wake():
			case <-working.Done():
			}
		}
		if working.Err() == nil {
			continue
		}
		if ctx.Err() != nil {
			if seqs := s.consumer.Detach(outbox.Lost(errStopping)); len(seqs) > 0 {
				_ = s.stream.SendMsg(encode(enc, &outbox.Batch{Cancels: seqs}))
			}
			_ = s.stream.CloseSend()
		}
		return nil
	}
}

func encode(enc *wire.Encoder, b *outbox.Batch) wire.Message {
	enc.Begin(len(b.Events), len(b.Cancels))
	for _, e := range b.Events {
		enc.Event(e.Seq, e.Event)
	}
	return enc.Finish(b.Cancels)
}

// receive passes answers on to the consumer.
func (s *delivering) receive(working context.Context) error {
	warning := rate.Sometimes{Interval: strayPause}
	unreported := 0
	for {
		resp, err := s.stream.Recv()
		if err != nil {
			return s.broken(working, err)
		}
		stray := s.complete(resp)
		if stray == len(resp.GetDone())+len(resp.GetAnswers()) {
			// The handler may send such messages without end.
			sleep(working, emptyPause)
		}
		if stray > 0 {
			unreported += stray
			warning.Do(func() {
				s.log.Warn("handler answered events that it does not have: ignored",
					"answers", unreported)
				unreported = 0
			})
		}
	}
}

// complete takes a message of answers, a few at a time: it may have millions.
func (s *delivering) complete(resp *handlerpb.DeliverResponse) (stray int) {
	for seqs := range slices.Chunk(resp.GetDone(), handlerpb.MaxBatchEvents) {
		s.answers = s.answers[:0]
		for _, seq := range seqs {
			s.answers = append(s.answers, outbox.Outcome{Seq: seq})
		}
		stray += s.consumer.Complete(s.answers)
	}
	for answers := range slices.Chunk(resp.GetAnswers(), handlerpb.MaxBatchEvents) {
		s.answers = s.answers[:0]
		for _, a := range answers {
			answer, err := answerResult(a)
			s.answers = append(s.answers, outbox.Outcome{Seq: a.GetSeq(), Answer: answer, Err: err})
		}
		stray += s.consumer.Complete(s.answers)
	}
	clear(s.answers[:cap(s.answers)])
	return stray
}

// emptyPause slows down a handler whose messages hold no answer to an event in flight.
const emptyPause = 5 * time.Millisecond

// strayPause is the least time between two warnings about answers that nobody asked for.
const strayPause = time.Minute

// broken says why the stream ended, or returns nil if informd ended it.
func (s *delivering) broken(working context.Context, err error) error {
	if working.Err() != nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return s.Explain(errors.New("it ended the stream of deliveries"))
	}
	if code := status.Code(err); code == codes.Unavailable || code == codes.Canceled {
		return s.Explain(errors.New("the stream of deliveries broke"))
	}
	return s.Explain(s.explain("deliver", 0, err))
}

// expire ends events at their time limits, and a handler that leaves too many unanswered even then.
func (s *delivering) expire(working context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-working.Done():
			return nil
		case <-timer.C:
			now := time.Now()
			timer.Reset(time.Until(s.consumer.Expire(now)))
			if err := s.consumer.Overdue(now); err != nil {
				return err
			}
		}
	}
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
