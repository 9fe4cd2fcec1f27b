package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

// bench delivers events as informd does: several at once, never two of one object, each with its
// time limit, and together to a handler that takes batches. But it delivers each event once, and
// reports the answer instead of acting on it.
type bench struct {
	handler handler.Handler
	batcher handler.Batcher // the handler, if it takes batches, or nil
	limit   time.Duration   // of an event; 0: none
	room    chan struct{}   // holds a token for each event that is with the handler
	working sync.WaitGroup

	mu      sync.Mutex
	out     *json.Encoder
	objects map[object]*trial // the last trial of each object, until it is over
	failed  bool              // an event was not done
}

// trial is one event on its way.
type trial struct {
	event    handler.Event
	line     int
	batch    int // events of the call of HandleBatch that answered it; 0 if Handle did
	began    time.Time
	reported chan struct{} // closed when its verdict is written
	returned chan struct{} // closed when the handler has returned from it
}

func newTrial(ev handler.Event, line int) *trial {
	return &trial{
		event: ev, line: line, reported: make(chan struct{}), returned: make(chan struct{}),
	}
}

func (t *trial) object() object {
	return object{t.event.Rule, t.event.Namespace, t.event.Name, t.event.Resource}
}

// newBench returns a bench for a handler that takes so many events at once; 0: no limit of its own.
func newBench(h handler.Handler, limit time.Duration, concurrency int, out io.Writer) *bench {
	batcher, _ := h.(handler.Batcher)
	most := handlerpb.DefaultConcurrency
	if batcher != nil {
		most = handlerpb.DefaultBatchConcurrency
	}
	if concurrency <= 0 || concurrency > most {
		concurrency = most
	}
	return &bench{
		handler: h, batcher: batcher, limit: limit, room: make(chan struct{}, concurrency),
		out: json.NewEncoder(out), objects: map[object]*trial{},
	}
}

// together is how soon an event must come after the last one to share a batch with it.
const together = 10 * time.Millisecond

// deliverAll delivers events until there are no more or ctx ends, which counts as a failure. An
// error is about the input; the events before it are delivered.
func (b *bench) deliverAll(ctx context.Context, in *events) error {
	type next struct {
		event handler.Event
		line  int
		err   error
	}
	read := make(chan next)
	go func() { // a read of standard input may never return
		for {
			ev, line, err := in.next()
			select {
			case read <- next{ev, line, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	var batch []*trial
	for {
		var late <-chan time.Time
		if len(batch) > 0 {
			late = time.After(together)
		}
		select {
		case n := <-read:
			if n.err != nil {
				b.deliver(ctx, batch)
				if errors.Is(n.err, io.EOF) {
					return nil
				}
				return n.err
			}
			t := newTrial(n.event, n.line)
			if !b.fits(batch, t) {
				b.deliver(ctx, batch)
				batch = nil
			}
			if batch = append(batch, t); b.batcher == nil {
				b.deliver(ctx, batch)
				batch = nil
			}
		case <-late:
			b.deliver(ctx, batch)
			batch = nil
		case <-ctx.Done():
			slog.Warn("interrupted before the end of the events")
			b.fail()
			return nil
		}
	}
}

// fits reports whether a trial may go into a batch: informd sends no two events of one object
// together, and bounds what one message brings.
func (b *bench) fits(batch []*trial, t *trial) bool {
	size := wire.Size(&t.event)
	for _, other := range batch {
		if other.object() == t.object() {
			return false
		}
		size += wire.Size(&other.event)
	}
	return len(batch) == 0 ||
		len(batch) < min(handlerpb.MaxBatchEvents, cap(b.room)) && size <= handlerpb.MaxBatchBytes
}

// deliver handles events of different objects, once there is room for them and the last ones of
// their objects are over. It returns when the handler was called or ctx has ended.
func (b *bench) deliver(ctx context.Context, batch []*trial) {
	var free []*trial // whose object the handler does not hold any more
	for _, t := range batch {
		b.mu.Lock()
		last := b.objects[t.object()]
		b.mu.Unlock()
		stuck := last != nil && !last.over(ctx)
		select {
		case b.room <- struct{}{}:
		case <-ctx.Done():
			b.fail()
			return
		}
		t.began = time.Now()
		if stuck {
			b.report(t, nil,
				retry("the handler still has an earlier event of this object, past its time limit"))
			<-b.room
			continue
		}
		free = append(free, t)
	}
	if len(free) == 0 {
		return
	}
	now := time.Now()
	for _, t := range free {
		t.began = now
		b.mu.Lock()
		b.objects[t.object()] = t
		b.mu.Unlock()
		go func() { // nobody waits for it: the handler may never return
			<-t.returned
			<-t.reported
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.objects[t.object()] == t {
				delete(b.objects, t.object())
			}
		}()
	}
	b.working.Go(func() {
		if len(free) > 1 {
			b.handleBatch(ctx, free)
		} else {
			b.handle(ctx, free[0])
		}
		for range free {
			<-b.room
		}
	})
}

// grace is how long the handler may take to return after its context ended.
const grace = time.Second

// over waits for the verdict on an event, and reports whether the handler has returned from it or
// does so within grace.
func (t *trial) over(ctx context.Context) bool {
	select {
	case <-t.reported:
	case <-ctx.Done():
		return false
	}
	select {
	case <-t.returned:
		return true
	case <-time.After(grace):
	case <-ctx.Done():
	}
	return false
}

// handle calls Handle and reports its answer, or why there is none.
func (b *bench) handle(ctx context.Context, t *trial) {
	c := &callContext{parent: ctx, event: &t.event, deadline: b.deadline(t)}
	var actions []handler.Action
	answer := retry(goexit)
	go func() {
		defer close(t.returned)
		defer c.end()
		actions, answer = handle(c, b.handler, t.event)
	}()
	if why := b.await(ctx, c.deadline, t.returned); why != nil {
		b.report(t, nil, why)
		return
	}
	b.report(t, actions, answer)
}

// handleBatch calls HandleBatch and reports its results, or why there are none. As under informd, a
// call that fails has each of its events go to Handle alone.
func (b *bench) handleBatch(ctx context.Context, batch []*trial) {
	c := &callContext{parent: ctx, deadline: b.deadline(batch[0])}
	events := make([]handler.Event, len(batch))
	for i, t := range batch {
		events[i], t.batch = t.event, len(batch)
	}
	var results []handler.Result
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		results = handleAll(c, b.batcher, events)
	}()
	switch why := b.await(ctx, c.deadline, returned); {
	case why != nil:
		go func() { // nobody waits for it: HandleBatch may never return
			<-returned
			for _, t := range batch {
				close(t.returned)
			}
		}()
		for _, t := range batch {
			b.report(t, nil, why)
		}
	case results == nil:
		var alone sync.WaitGroup
		for _, t := range batch {
			t.batch = 0
			alone.Go(func() { b.handle(ctx, t) })
		}
		alone.Wait()
	default:
		for i, t := range batch {
			close(t.returned)
			r := results[i]
			b.report(t, r.Answer.Actions, answer(r.Answer, r.Err))
		}
	}
}

// deadline returns when the time limit of an event passes; the zero time is never.
func (b *bench) deadline(t *trial) time.Time {
	if b.limit == 0 {
		return time.Time{}
	}
	return t.began.Add(b.limit)
}

// await waits until a call has returned. It returns nil then. Otherwise the deadline has passed, or
// ctx has ended and the call did not return within grace: it returns the answer that says so.
func (b *bench) await(
	ctx context.Context, deadline time.Time, returned <-chan struct{},
) *handlerpb.Answer {
	var limit <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-returned:
		return nil
	case <-limit:
		return retry(fmt.Sprintf("no answer within the time limit of %v", b.limit))
	case <-ctx.Done():
	}
	select {
	case <-returned:
		return nil
	case <-time.After(grace):
		return retry("interrupted, and the handler did not return although its context had ended")
	}
}

// wait waits for the verdicts on all events, and reports whether an event was not done.
func (b *bench) wait() (failed bool) {
	b.working.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// report writes the verdict on an event.
func (b *bench) report(t *trial, actions []handler.Action, a *handlerpb.Answer) {
	ev := t.event
	v := wire.Verdict{
		Line: t.line, ID: ev.ID, Event: ev.Event,
		Object: strings.TrimSpace(ev.Rule + " " + wire.ObjectName(ev.Resource, ev.Namespace, ev.Name)),
		Result: "done", Batch: t.batch, Seconds: time.Since(t.began).Seconds(),
	}
	defer close(t.reported)
	switch r := a.GetResult().(type) {
	case *handlerpb.Answer_Retry:
		v.Result, v.Reason = "retry", r.Retry.GetReason()
		if after := r.Retry.GetAfter(); after != nil {
			v.RetryAfter = after.AsDuration().String()
		}
	case *handlerpb.Answer_Reject:
		v.Result, v.Reason = "reject", r.Reject.GetReason()
	default:
		v.Actions = actions
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = b.failed || v.Result != "done"
	if err := b.out.Encode(v); err != nil {
		b.failed = true
		slog.Error("the answer could not be written", "id", ev.ID, "error", err)
	}
}

// fail records that an event was not done.
func (b *bench) fail() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = true
}
