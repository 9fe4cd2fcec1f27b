package outbox

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

var (
	errStop = errors.New("handler is stopped")
	errGone = errors.New("it is going away")
)

// send submits n events and counts how they end.
func send(t *testing.T, p *Outbox, n int, ended map[string]int) {
	t.Helper()
	for i := range n {
		p.Submit(t.Context(), &handler.Event{Rule: "r", Name: fmt.Sprint(i)}, func(_ handler.Answer, err error) { ended[fmt.Sprint(err)]++ })
	}
}

func joined(p *Outbox, events int) *Consumer {
	d := p.NewConsumer()
	d.Attach(Window{Events: events, Bytes: 1 << 20})
	return d
}

// Events go to the consumer with the least of its window taken, wait while there is none, and go to
// another one if they were not sent.
func TestOutbox(t *testing.T) {
	p := New(time.Minute)
	ended := make(map[string]int)
	send(t, p, 2, ended)
	if n := p.Waiting(); n != 2 {
		t.Errorf("%d wait, want 2", n)
	}
	small := joined(p, 2) // gets what waited
	if taken := has(small); taken != 2 || p.Waiting() != 0 {
		t.Errorf("the first to join has %d, %d wait", taken, p.Waiting())
	}
	large := joined(p, 6)
	if got, _ := p.Room(); got != 8 {
		t.Errorf("room for %d, want 8", got)
	}
	send(t, p, 6, ended)
	if a, b := has(small), has(large); a != 2 || b != 6 {
		t.Errorf("they have %d and %d, want 2 and 6", a, b)
	}

	// The small consumer is held after it has sent one event.
	small.window.Events = 1
	if b := small.Take(time.Now()); len(b.Events) != 1 {
		t.Fatalf("%d events were taken", len(b.Events))
	}
	held := small.Hold()
	if a, b := has(small), has(large); a != 1 || b != 6 || p.Waiting() != 1 {
		t.Errorf("they have %d and %d, want 1 and 6; %d wait, want 1", a, b, p.Waiting())
	}
	select {
	case <-held:
		t.Error("it is let go of with an event")
	default:
	}
	if again := small.Hold(); again != held {
		t.Error("who lets go of it a second time waits for something else")
	}
	small.Complete([]Outcome{{Seq: 1}})
	<-held
	small.Detach(Lost(errGone))

	// The large consumer fails: the events that it was sent are lost, and the others wait
	// for the next consumer.
	large.window.Events = 3
	if b := large.Take(time.Now()); len(b.Events) != 3 {
		t.Fatalf("%d events were taken", len(b.Events))
	}
	large.Fail(Lost(errors.New("gone")))
	if n := p.Waiting(); n != 4 || roomOf(p) != 0 {
		t.Errorf("%d wait, want 4; room for %d", n, roomOf(p))
	}
	p.Stop(errStop)
	want := map[string]int{"<nil>": 1, Lost(errors.New("gone")).Error(): 3, errStop.Error(): 4}
	if fmt.Sprint(ended) != fmt.Sprint(want) {
		t.Errorf("they ended as %v, want %v", ended, want)
	}
	send(t, p, 1, ended)
	if ended[errStop.Error()] != 5 {
		t.Errorf("after the end: %v", ended)
	}
}

func roomOf(p *Outbox) int {
	n, _ := p.Room()
	return n
}

// has returns how many events a consumer has without an outcome.
func has(c *Consumer) int {
	assigned, inFlight, _ := c.Stats()
	return assigned + inFlight
}

// waits returns how many events were not sent, wherever they wait.
func waits(c *Consumer) int {
	assigned, _, _ := c.Stats()
	return c.box.Waiting() + assigned
}

// If an endpoint fails with a late event, the next event of that object gets an error, wherever it
// would go.
func TestOutboxRemembersLateEvents(t *testing.T) {
	p := New(time.Millisecond)
	ended := make(map[string]int)
	one := joined(p, 1)
	send(t, p, 1, ended)
	now := time.Now()
	one.Take(now)
	one.Expire(now.Add(time.Second))
	one.Fail(Lost(errors.New("gone")))
	joined(p, 1)
	send(t, p, 1, ended)
	if ended[Lost(errEndedWith).Error()] != 1 {
		t.Errorf("%v", ended)
	}
}

// What is submitted together is taken as one batch, also by a sender that waits for it. An event that
// cannot be delivered takes no other along.
func TestSubmitAll(t *testing.T) {
	p := New(time.Minute)
	c := joined(p, 8)
	events := []*handler.Event{
		{Rule: "r", Name: "a"}, {Rule: "r", Name: "b", Object: make([]byte, maxEventBytes+1)}, {Rule: "r", Name: "c"},
	}
	const rounds = 1000
	batches := make(chan int, 3*rounds)
	go func() {
		for t.Context().Err() == nil {
			select {
			case <-c.Wake():
			case <-t.Context().Done():
			}
			for b := c.Take(time.Now()); b != nil; b = c.Take(time.Now()) {
				var done []Outcome
				for _, sent := range b.Events {
					done = append(done, Outcome{Seq: sent.Seq})
				}
				batches <- len(done)
				c.Complete(done)
			}
		}
	}()
	for range rounds {
		ended := make(chan string, len(events))
		p.SubmitAll(t.Context(), events, func(i int, _ handler.Answer, err error) { ended <- fmt.Sprint(i, err == nil) })
		got := []string{<-ended, <-ended, <-ended}
		slices.Sort(got)
		if want := "[0 true 1 false 2 true]"; fmt.Sprint(got) != want {
			t.Fatalf("they ended as %v, want %v", got, want)
		}
		if n := <-batches; n != 2 {
			t.Fatalf("a batch has %d events, want 2", n)
		}
	}
	p.Stop(errStop)
	p.SubmitAll(t.Context(), events[:1], func(_ int, _ handler.Answer, err error) {
		if !errors.Is(err, errStop) {
			t.Errorf("after the end: %v", err)
		}
	})
}
