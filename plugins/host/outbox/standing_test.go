package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// one submits an event of that name and size, and returns its outcome.
func one(t *testing.T, p *Outbox, name string, attempt, size int) *error {
	t.Helper()
	end := errors.New("not yet")
	p.Submit(t.Context(), &handler.Event{Rule: "r", Name: name, Attempt: attempt, Object: make([]byte, size)}, func(_ handler.Answer, err error) { end = err })
	return &end
}

// sends takes all that d may send, and returns the names.
func sends(d *Consumer) (names []string) {
	for b := d.Take(time.Now()); b != nil; b = d.Take(time.Now()) {
		for _, c := range b.Events {
			names = append(names, c.Event.Name)
		}
	}
	return names
}

// Events that are still with a leaving consumer take no place from the others.
func TestOutboxLimitWhileOneLeaves(t *testing.T) {
	p := New(time.Minute)
	a, b := joined(p, 4), joined(p, 4)
	for i := range 8 {
		one(t, p, fmt.Sprint(i), 1, 1)
	}
	sends(a)
	sends(b)
	b.Hold()
	if got, _ := p.Room(); got != 8 {
		t.Errorf("room for %d, want the four of one, and the four that are with the other", got)
	}
	b.Complete([]Outcome{{Seq: 1}, {Seq: 2}})
	if got, _ := p.Room(); got != 6 {
		t.Errorf("room for %d, want 6", got)
	}
	b.Complete([]Outcome{{Seq: 3}, {Seq: 4}})
	b.Detach(Lost(errGone))
	if got, _ := p.Room(); got != 4 {
		t.Errorf("room for %d, want 4", got)
	}
}

// An event that one consumer has no room for goes to whichever has room first.
func TestOutboxDoesNotWaitForOneConsumer(t *testing.T) {
	p := New(time.Minute)
	a, b := joined(p, 8), joined(p, 8)
	for i := range 4 { // each takes a window
		one(t, p, fmt.Sprint("large-", i), 1, 1<<20)
	}
	if x, y := sends(a), sends(b); len(x) != 1 || len(y) != 1 {
		t.Fatalf("%v and %v were sent", x, y)
	}
	b.Complete([]Outcome{{Seq: 1}})
	if got := sends(b); len(got) != 1 {
		t.Errorf("%v was sent by who has room, want one", got)
	}
	b.Complete([]Outcome{{Seq: 2}})
	if got := sends(b); len(got) != 1 {
		t.Errorf("%v was sent by who has room: the last one waits for the other", got)
	}
	if n := p.Waiting(); n != 0 {
		t.Errorf("%d wait", n)
	}
}

// Waiting events are sent when a consumer attaches, or when an abandoned event makes room.
func TestOutboxResumes(t *testing.T) {
	p := New(time.Second)
	a := joined(p, 1)
	for i := range 3 {
		one(t, p, fmt.Sprint(i), 1, 1)
	}
	if got := sends(a); !slices.Equal(got, []string{"0"}) {
		t.Fatalf("%v was sent", got)
	}
	b := joined(p, 1)
	if got := sends(b); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the one that came sent %v", got)
	}
	a.Expire(time.Now().Add(2 * time.Second))
	if got := sends(a); !slices.Equal(got, []string{"2"}) {
		t.Errorf("after the time limit %v was sent", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	p.Submit(ctx, &handler.Event{Rule: "r", Name: "unwanted"}, func(_ handler.Answer, err error) { gone <- err })
	later := one(t, p, "later", 1, 1)
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up was told %v", err)
	}
	b.Complete([]Outcome{{Seq: 1}})
	if got := sends(b); !slices.Equal(got, []string{"later"}) {
		t.Errorf("%v was sent", got)
	}
	b.Complete([]Outcome{{Seq: 2}})
	if *later != nil {
		t.Error(*later)
	}
}

// While a consumer has a late event of an object, only that consumer gets the object's next event:
// it knows when it has let go of the object.
func TestOutboxKeepsLateObjectsWhereTheyAre(t *testing.T) {
	p := New(time.Millisecond)
	a := joined(p, 4)
	one(t, p, "x", 1, 1)
	sends(a)
	b := joined(p, 4)
	a.Expire(time.Now().Add(time.Second))
	for range 3 {
		one(t, p, "x", 2, 1)
	}
	if got := sends(b); len(got) > 0 {
		t.Errorf("%v was sent where nobody knows of the one before", got)
	}
	if got := sends(a); len(got) != 3 {
		t.Errorf("%v was sent, want all", got)
	}
	a.Complete([]Outcome{{Seq: 1}, {Seq: 2}, {Seq: 3}, {Seq: 4}})
	one(t, p, "x", 1, 1)
	one(t, p, "x", 1, 1)
	if got := sends(b); len(got) == 0 {
		t.Error("it stays where it was, although that is over")
	}
}

// A consumer that failed gets one event at a time until it has answered one. It gets no event that
// was sent before, as long as another one has room.
func TestOutboxTestsFailedConsumers(t *testing.T) {
	p := New(time.Minute)
	a, b := joined(p, 4), joined(p, 4)
	for i := range 8 {
		one(t, p, fmt.Sprint(i), 1, 1)
	}
	sends(a)
	sends(b)
	a.Complete([]Outcome{{Seq: 1}, {Seq: 2}, {Seq: 3}})
	b.Fail(Lost(errors.New("gone")))
	b.Attach(Window{Events: 4, Bytes: 1 << 20})
	if got, _ := p.Room(); got != 5 {
		t.Errorf("room for %d, want 4 and 1", got)
	}
	for i := range 3 {
		one(t, p, fmt.Sprint("again-", i), 2, 1)
	}
	if x, y := sends(a), sends(b); len(x) != 3 || len(y) > 0 {
		t.Errorf("%v and %v were sent, want all by the one that did not fail", x, y)
	}
	one(t, p, "more", 2, 1)
	one(t, p, "waits", 1, 1)
	if x, y := sends(a), sends(b); len(x) > 0 || len(y) != 1 || p.Waiting() != 1 {
		t.Errorf("%v and %v were sent, want one by the one that failed; %d wait", x, y, p.Waiting())
	}
	b.Complete([]Outcome{{Seq: 1}})
	if got, _ := p.Room(); got != 8 {
		t.Errorf("room for %d once it has answered, want 8", got)
	}

	a.Fail(Lost(errors.New("gone")))
	b.Fail(Lost(errors.New("gone")))
	b.Attach(Window{Events: 4, Bytes: 1 << 20})
	if got, _ := p.Room(); got != 4 {
		t.Errorf("room for %d, want all of the only one there is", got)
	}
}

// A lost event goes to a consumer that has answered one, rather than to a new one.
func TestOutboxPrefersProvenConsumers(t *testing.T) {
	p := New(time.Minute)
	a, b := joined(p, 4), joined(p, 4)
	for len(sends(a)) == 0 {
		one(t, p, "x", 1, 1)
	}
	a.Complete([]Outcome{{Seq: 1}})
	for i := range 4 {
		one(t, p, fmt.Sprint(i), 2, 1)
	}
	if got := sends(a); len(got) != 4 {
		t.Errorf("%v was sent by the one that has answered, want all; %v by the other", got, sends(b))
	}
}

// A wedged consumer gets no new events if there are others. Its late events count as load.
func TestOutboxSparesWedgedConsumers(t *testing.T) {
	p := New(time.Millisecond)
	a, b := joined(p, 4), joined(p, 4)
	one(t, p, "0", 1, 1)
	one(t, p, "1", 1, 1)
	sends(a)
	sends(b)
	b.Complete([]Outcome{{Seq: 1}})
	a.Expire(time.Now().Add(time.Second))
	one(t, p, "2", 1, 1)
	if got := sends(b); len(got) != 1 {
		t.Errorf("%v was sent by the one that answers", got)
	}
	b.Complete([]Outcome{{Seq: 2}})
	a.Doubt(true)
	if got, _ := p.Room(); got != 4 {
		t.Errorf("room for %d, want that of the other", got)
	}
	for i := range 4 {
		one(t, p, fmt.Sprint("new-", i), 1, 1)
	}
	if x, y := sends(a), sends(b); len(x) > 0 || len(y) != 4 {
		t.Errorf("%v and %v were sent", x, y)
	}
	one(t, p, "waits", 1, 1)
	a.Doubt(false)
	if got := sends(a); len(got) != 1 {
		t.Errorf("%v was sent once it answers again", got)
	}
	a.Doubt(true)
	b.Detach(Lost(errGone))
	one(t, p, "whoever", 1, 1)
	if got := sends(a); len(got) != 1 {
		t.Errorf("%v was sent by the only one", got)
	}
}

// A consumer that answers health checks again gets as many events as before. Nobody else would say
// so to a caller that waits for room.
func TestOutboxGrowsWhenAConsumerRecovers(t *testing.T) {
	p := New(time.Minute)
	a, _ := joined(p, 4), joined(p, 4)
	a.Doubt(true)
	select {
	case <-p.Grown(): // a token from earlier
	default:
	}
	if got, _ := p.Room(); got != 4 {
		t.Fatalf("room for %d, want the four of the other", got)
	}
	a.Doubt(false)
	if got, _ := p.Room(); got != 8 {
		t.Errorf("room for %d, want 8", got)
	}
	select {
	case <-p.Grown():
	default:
		t.Error("the room has grown, and nobody is told")
	}
}
