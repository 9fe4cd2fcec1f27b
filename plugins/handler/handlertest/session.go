package handlertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

// session sends events to one handler, over one stream, and collects the answers. It keeps to the
// handler's window, sends what waits in batches, cancels events that it has given up on, and asks
// for the handler's health: all as informd does. It has many fields because it keeps the whole
// account of one connection.
type session struct {
	t      *trial
	p      *process
	stream handlerpb.Handler_DeliverClient
	cancel context.CancelFunc // ends the stream
	wake   chan struct{}      // holds a token when send should check for something to send
	ended  chan struct{}      // closed by receive
	loops  sync.WaitGroup

	concurrency int
	windowBytes int

	mu      sync.Mutex       // guards the rest
	waiting []*call          // not sent
	open    map[uint64]*call // sent and not answered
	late    map[uint64]bool  // given up on and not answered
	cancels []uint64         // of late, those that the handler does not know of
	bytes   int              // of the events in open
	seq     uint64
	strays  int   // answers to events that were never sent, or were answered before
	closing bool  // the suite itself ends the session
	lost    error // why the session is over
}

// call is one event on its way.
type call struct {
	event    handler.Event
	size     int
	seq      uint64        // 0 until it is sent; guarded by session.mu
	sent     chan struct{} // closed when it is sent
	answered chan answered // holds one
}

type answered struct {
	answer handler.Answer
	err    error
}

// What a suite uses of a window, at most: as much as informd's defaults do if events hang.
const concurrency = 8 + 128

// newSession starts a session with a handler that has described itself and accepted its config.
func (t *trial) newSession(p *process, d *handlerpb.DescribeResponse) (*session, error) {
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := p.api.Deliver(ctx, grpc.CallContentSubtype("proto"))
	if err != nil {
		cancel()
		return nil, p.explain(fmt.Errorf("its call Deliver fails: %w", err))
	}
	s := &session{
		t: t, p: p, stream: stream, cancel: cancel,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
		concurrency: concurrency, windowBytes: handlerpb.DefaultWindowBytes,
		open: make(map[uint64]*call), late: make(map[uint64]bool),
	}
	if n := int(d.GetConcurrency()); n > 0 {
		s.concurrency = min(n, concurrency)
	}
	if t.Debug {
		s.concurrency = 1
	}
	if n := d.GetWindowBytes(); n > 0 {
		s.windowBytes = int(min(n, handlerpb.MaxWindowBytes))
	}
	s.loops.Add(3)
	go func() { defer s.loops.Done(); s.send() }()
	go func() { defer s.loops.Done(); s.receive() }()
	go func() {
		defer s.loops.Done()
		if !t.Debug {
			s.checkHealth(ctx)
		}
	}()
	return s, nil
}

// handle sends ev and returns the handler's answer. The error wraps handler.ErrLost if the handler
// went away first.
func (s *session) handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	c := &call{
		event: ev, size: wire.Size(&ev),
		sent: make(chan struct{}), answered: make(chan answered, 1),
	}
	s.mu.Lock()
	if s.lost != nil {
		defer s.mu.Unlock()
		return handler.Answer{}, s.lost
	}
	s.waiting = append(s.waiting, c)
	s.mu.Unlock()
	s.wakeUp()

	sent := c.sent
	var limit <-chan time.Time // counts from the sending
	for {
		select {
		case a := <-c.answered:
			return a.answer, a.err
		case <-sent:
			sent = nil
			timer := time.NewTimer(s.t.Timeout)
			defer timer.Stop()
			limit = timer.C
		case <-limit:
			s.giveUp(c)
			return handler.Answer{}, fmt.Errorf("%w of %v", handler.ErrNoAnswer, s.t.Timeout)
		case <-ctx.Done():
			s.giveUp(c)
			return handler.Answer{}, ctx.Err()
		}
	}
}

func (s *session) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// giveUp stops waiting for a call, and cancels the event if the handler has it.
func (s *session) giveUp(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(w *call) bool { return w == c })
	if s.open[c.seq] == c {
		delete(s.open, c.seq)
		s.bytes -= c.size
		s.late[c.seq] = true
		s.cancels = append(s.cancels, c.seq)
	}
	s.wakeUp()
}

// send sends what waits, as there is room for it, until the session is over or is closed.
func (s *session) send() {
	for {
		req, last := s.take()
		if last {
			_ = s.stream.CloseSend()
			return
		}
		if req == nil {
			select {
			case <-s.wake:
				continue
			case <-s.ended:
				return
			}
		}
		if err := s.stream.Send(req); err != nil {
			<-s.ended // receive knows why
			return
		}
	}
}

// take returns the next message. It is nil if there is nothing to send, or no room for it; last
// reports that nothing will follow.
func (s *session) take() (_ *handlerpb.DeliverRequest, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	req := &handlerpb.DeliverRequest{Cancel: s.cancels}
	s.cancels = nil
	batch := 0 // bytes
	for len(s.waiting) > 0 && len(req.Events) < handlerpb.MaxBatchEvents {
		c := s.waiting[0]
		full := len(s.open) > 0 && (len(s.open) >= s.concurrency || s.bytes+c.size > s.windowBytes)
		if full || len(req.Events) > 0 && batch+c.size > handlerpb.MaxBatchBytes {
			break
		}
		s.waiting = s.waiting[1:]
		s.seq++
		c.seq = s.seq
		s.open[c.seq] = c
		s.bytes += c.size
		batch += c.size
		req.Events = append(req.Events, s.t.wire(c.event, c.seq))
		close(c.sent)
	}
	if len(req.Events) == 0 && len(req.Cancel) == 0 {
		return nil, s.closing && len(s.waiting) == 0
	}
	return req, false
}

// receive hands the answers to those who wait for them. At the end of the stream every event that
// is not answered is lost.
func (s *session) receive() {
	defer close(s.ended)
	for {
		resp, err := s.stream.Recv()
		if err != nil {
			s.lose(s.broken(err))
			return
		}
		for _, seq := range resp.GetDone() {
			s.complete(seq, answered{})
		}
		for _, a := range resp.GetAnswers() {
			answer, err := result(a)
			s.complete(a.GetSeq(), answered{answer, err})
		}
		s.wakeUp()
	}
}

func (s *session) complete(seq uint64, a answered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.open[seq]
	switch {
	case c != nil:
		delete(s.open, seq)
		s.bytes -= c.size
		c.answered <- a
	case s.late[seq]:
		delete(s.late, seq)
	default:
		s.strays++
	}
}

// result returns what a handler's answer means.
func result(a *handlerpb.Answer) (handler.Answer, error) {
	switch r := a.GetResult().(type) {
	case *handlerpb.Answer_Done:
		return doneResult(r.Done.GetActions())
	case *handlerpb.Answer_Reject:
		return handler.Answer{}, handler.Reject(reason(r.Reject.GetReason(), "no reason given"))
	case *handlerpb.Answer_Retry:
		return handler.Answer{}, reason(r.Retry.GetReason(), "the handler asked for a retry")
	}
	return handler.Answer{}, errors.New("the handler's answer says neither done, retry nor reject")
}

func reason(given, otherwise string) error {
	if given == "" {
		given = otherwise
	}
	return errors.New(wire.Text(given, handlerpb.MaxReasonBytes))
}

// errImpossible says that informd makes nothing of an answer.
var errImpossible = errors.New("informd rejects it")

func doneResult(actions []*handlerpb.Action) (a handler.Answer, err error) {
	if len(actions) > handlerpb.MaxActions {
		return a, fmt.Errorf("%w: the answer has %d actions; at most %d are allowed",
			errImpossible, len(actions), handlerpb.MaxActions)
	}
	for i, p := range actions {
		action, ok := wire.ToAction(p)
		if !ok {
			return a, fmt.Errorf("%w: actions[%d] of the answer is of a kind that this informd "+
				"does not know", errImpossible, i)
		}
		a.Actions = append(a.Actions, action)
	}
	return a, nil
}

var errClosed = errors.New("the session is closed")

func (s *session) broken(err error) error {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if closing {
		return errClosed
	}
	if errors.Is(err, io.EOF) {
		return s.p.explain(errors.New("it ended the stream of deliveries"))
	}
	return s.p.explain(fmt.Errorf("the stream of deliveries broke: %s",
		status.Convert(err).Message()))
}

// lose ends the session for all who wait. The first reason counts.
func (s *session) lose(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = fmt.Errorf("%w: %w", handler.ErrLost, why)
	}
	for _, c := range s.waiting {
		c.answered <- answered{err: s.lost}
	}
	for _, c := range s.open {
		c.answered <- answered{err: s.lost}
	}
	s.waiting = nil
	clear(s.open)
}

// isOver reports whether the handler is lost.
func (s *session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost != nil
}

// strayAnswers returns how many answers nobody asked for.
func (s *session) strayAnswers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strays
}

// How informd asks for a handler's health, and how many checks in a row a handler may miss.
const (
	healthInterval = 10 * time.Second
	healthPatience = 5 * time.Second
	maxMisses      = 2
)

// checkHealth asks the handler regularly for its health. One that gives no answer twice in a row
// hangs, and is ended.
func (s *session) checkHealth(ctx context.Context) {
	ticker := time.NewTicker(healthInterval)
	defer ticker.Stop()
	for misses := 0; ; {
		limited, cancel := context.WithTimeout(ctx, healthPatience)
		_, err := s.p.api.Health(limited, &handlerpb.HealthRequest{})
		missed := err != nil && limited.Err() != nil && ctx.Err() == nil
		cancel()
		if missed {
			if misses++; misses == maxMisses {
				s.lose(fmt.Errorf("it hangs: %d health checks in a row had no answer within %v",
					maxMisses, healthPatience))
				s.cancel()
				return
			}
			continue
		}
		misses = 0
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		case <-s.ended:
			return
		}
	}
}

// drainPatience bounds the handler's last answers and its drain together.
const drainPatience = 5 * time.Second

// end ends the stream, drains the handler, and ends its process within grace. It reports whether
// the process exited by itself or at SIGTERM.
func (s *session) end(grace time.Duration) (exited bool) {
	ctx, cancel := context.WithTimeout(context.Background(), drainPatience)
	defer cancel()
	if !s.isOver() {
		s.close()
		select {
		case <-s.ended:
		case <-ctx.Done():
		}
		_, err := s.p.api.Drain(ctx, &handlerpb.DrainRequest{})
		if err != nil && status.Code(err) != codes.Unimplemented {
			s.t.logged.add(fmt.Sprintf("it did not drain: %v", status.Convert(err).Message()))
		}
	}
	s.cancel()
	s.loops.Wait()
	return s.p.end(grace)
}

// close has send end informd's side of the stream.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.wakeUp()
}

// introduce calls the handler's Describe and Configure. The error is a *refusal if the handler
// refuses the config.
func (t *trial) introduce(
	ctx context.Context, p *process, config json.RawMessage,
) (*handlerpb.DescribeResponse, error) {
	describing, cancel := context.WithTimeout(ctx, t.atLeast(describePatience))
	defer cancel()
	d, err := p.api.Describe(describing, &handlerpb.DescribeRequest{InformdVersion: "handlertest"},
		grpc.MaxCallRecvMsgSize(handlerpb.MaxDescriptionBytes))
	if err != nil {
		return nil, p.failed("Describe", describePatience, err)
	}
	configuring, cancel := context.WithTimeout(ctx, t.atLeast(configurePatience))
	defer cancel()
	resp, err := p.api.Configure(configuring,
		&handlerpb.ConfigureRequest{Config: config, Handler: "handlertest"},
		grpc.MaxCallRecvMsgSize(handlerpb.MaxProblemsBytes))
	if err != nil {
		return nil, p.failed("Configure", configurePatience, err)
	}
	if len(resp.GetProblems()) > 0 {
		return nil, &refusal{resp.GetProblems()}
	}
	return d, nil
}

// failed says why a call failed.
func (p *process) failed(call string, limit time.Duration, err error) error {
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return fmt.Errorf("it did not answer %s within %v", call, limit)
	case codes.Unavailable, codes.Canceled:
		return p.explain(fmt.Errorf("the connection broke during %s: %s",
			call, status.Convert(err).Message()))
	case codes.Unimplemented:
		return fmt.Errorf("it does not implement %s", call)
	}
	return fmt.Errorf("%s failed: %s", call, status.Convert(err).Message())
}
