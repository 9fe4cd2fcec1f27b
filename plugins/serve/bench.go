package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// bench delivers events as informd does: several at once, never two of one object, each with its
// time limit. But it delivers each event once, and reports the answer instead of acting on it.
type bench struct {
	handler handler.Handler
	limit   time.Duration // of an event; 0: none
	room    chan struct{} // holds a token for each event that is with the handler
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
	began    time.Time
	reported chan struct{} // closed when its verdict is written
	returned chan struct{} // closed when Handle has returned
}

// verdict is the outcome of an event: a line of the output.
type verdict struct {
	Line  int    `json:"line"` // of the input that the event begins on
	ID    string `json:"id"`
	Event string `json:"event"`
	// Object is RULE RESOURCE NAMESPACE/NAME, without the parts that the event lacks.
	Object     string           `json:"object"`
	Result     string           `json:"result"`           // done, retry or reject
	Reason     string           `json:"reason,omitempty"` // of a retry or reject
	RetryAfter string           `json:"retryAfter,omitempty"`
	Actions    []handler.Action `json:"actions,omitempty"`
	Seconds    float64          `json:"seconds"` // that Handle took
}

// newBench returns a bench for a handler that takes so many events at once; 0: no limit of its own.
func newBench(h handler.Handler, limit time.Duration, concurrency int, out io.Writer) *bench {
	if concurrency <= 0 || concurrency > handConcurrency {
		concurrency = handConcurrency
	}
	return &bench{
		handler: h, limit: limit, room: make(chan struct{}, concurrency),
		out: json.NewEncoder(out), objects: map[object]*trial{},
	}
}

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
	for {
		select {
		case n := <-read:
			if errors.Is(n.err, io.EOF) {
				return nil
			}
			if n.err != nil {
				return n.err
			}
			b.deliver(ctx, &trial{event: n.event, line: n.line})
		case <-ctx.Done():
			slog.Warn("interrupted before the end of the events")
			b.fail()
			return nil
		}
	}
}

// deliver handles one event, once there is room for it and the object's last one is over. It
// returns when Handle was called or ctx has ended.
func (b *bench) deliver(ctx context.Context, t *trial) {
	o := object{t.event.Rule, t.event.Namespace, t.event.Name, t.event.Resource}
	b.mu.Lock()
	last := b.objects[o]
	b.mu.Unlock()
	stuck := last != nil && !last.over(ctx)
	select {
	case b.room <- struct{}{}:
	case <-ctx.Done():
		b.fail()
		return
	}
	t.began, t.reported, t.returned = time.Now(), make(chan struct{}), make(chan struct{})
	if stuck {
		b.report(t, nil,
			retry("the handler still has an earlier event of this object, past its time limit"))
		<-b.room
		return
	}
	b.mu.Lock()
	b.objects[o] = t
	b.mu.Unlock()
	b.working.Add(1)
	go func() {
		defer b.working.Done()
		defer func() { <-b.room }()
		defer close(t.reported)
		b.handle(ctx, t)
	}()
	go func() { // nobody waits for it: Handle may never return
		<-t.returned
		<-t.reported
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.objects[o] == t {
			delete(b.objects, o)
		}
	}()
}

// grace is how long Handle may take to return after its context ended.
const grace = time.Second

// over waits for the verdict on an event, and reports whether Handle has returned or does so within
// grace.
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

// handle calls the handler and reports its answer, or why there is none.
func (b *bench) handle(ctx context.Context, t *trial) {
	c := &callContext{parent: ctx, event: &t.event}
	var limit <-chan time.Time
	if b.limit > 0 {
		c.deadline = t.began.Add(b.limit)
		timer := time.NewTimer(b.limit)
		defer timer.Stop()
		limit = timer.C
	}
	var actions []handler.Action
	answer := retry(goexit)
	go func() {
		defer close(t.returned)
		defer c.end()
		actions, answer = handle(c, b.handler, t.event)
	}()
	select {
	case <-t.returned:
	case <-limit:
		b.report(t, nil, retry(fmt.Sprintf("no answer within the time limit of %v", b.limit)))
		return
	case <-ctx.Done():
		select {
		case <-t.returned:
		case <-time.After(grace):
			b.report(t, nil,
				retry("interrupted, and Handle did not return although its context had ended"))
			return
		}
	}
	b.report(t, actions, answer)
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
	v := verdict{
		Line: t.line, ID: ev.ID, Event: ev.Event, Object: objectName(ev),
		Result: "done", Seconds: time.Since(t.began).Seconds(),
	}
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

// objectName names an event's object, for people.
func objectName(ev handler.Event) string {
	resource := ev.Resource.Resource
	if ev.Resource.Version != "" {
		resource = ev.Resource.Version + "/" + resource
	}
	if ev.Resource.Group != "" {
		resource = ev.Resource.Group + "/" + resource
	}
	name := ev.Name
	if ev.Namespace != "" {
		name = ev.Namespace + "/" + name
	}
	parts := slices.DeleteFunc([]string{ev.Rule, resource, name}, func(s string) bool {
		return s == ""
	})
	return strings.Join(parts, " ")
}
