package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
)

// waitingCalls submits events of the given sizes, in order, each from a caller of its own.
func waitingCalls(t *testing.T, d *Consumer, results chan<- string, sizes ...int) {
	t.Helper()
	for i, size := range sizes {
		ev := handler.Event{Name: fmt.Sprint(i), Object: make([]byte, size)}
		d.box.Submit(t.Context(), &ev, func(_ handler.Answer, err error) { results <- fmt.Sprintf("%d: %v", i, err) })
	}
}

// taken returns the names of a message's events.
func taken(b *Batch) []string {
	var names []string
	for _, c := range b.Events {
		names = append(names, fmt.Sprintf("%s as %d", c.Event.Name, c.Seq))
	}
	return names
}

// The last attempt of an event goes alone, so that no other event of its message takes it along.
func TestLastAttemptsGoAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(time.Minute).NewConsumer()
		results := make(chan string, 6)
		for i, attempt := range []int{1, 2, 5, 6, 1, 1} {
			ev := handler.Event{Name: fmt.Sprint(i), Attempt: attempt}
			d.box.Submit(t.Context(), &ev, func(_ handler.Answer, err error) { results <- fmt.Sprintf("%d: %v", i, err) })
		}
		d.Attach(Window{Events: 99, Bytes: 1 << 20, Last: 5})
		var got []int
		for req := d.Take(time.Now()); req != nil; req = d.Take(time.Now()) {
			got = append(got, len(req.Events))
		}
		if diff := cmp.Diff([]int{2, 1, 1, 2}, got); diff != "" {
			t.Error(diff)
		}
		d.Detach(nil)
	})
}

func TestWindow(t *testing.T) {
	const kb, mb = 1 << 10, 1 << 20
	for _, c := range []struct {
		why    string
		window Window
		sizes  []int
		want   []int // events in each message, as long as nothing is answered
	}{
		{"as many events as the window has", Window{Events: 2, Bytes: mb}, []int{1, 1, 1}, []int{2}},
		{"as many bytes as the window has", Window{Events: 9, Bytes: 10}, []int{4, 4, 4}, []int{2}},
		{"a larger one goes alone", Window{Events: 9, Bytes: 10}, []int{20, 1}, []int{1}},
		{"and waits for that", Window{Events: 9, Bytes: 10}, []int{1, 20, 1}, []int{1}},
		{"batches of 32 events", Window{Events: 99, Bytes: mb}, make([]int, 70), []int{32, 32, 6}},
		{"batches of 1 MiB", Window{Events: 99, Bytes: 64 * mb}, []int{600 * kb, 600 * kb, 100 * kb, 3 * mb, 1}, []int{1, 2, 1, 1}},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := New(time.Minute).NewConsumer()
				results := make(chan string, len(c.sizes))
				waitingCalls(t, d, results, c.sizes...)
				if d.Take(time.Now()) != nil {
					t.Error("taken without a process")
				}
				d.Attach(c.window)
				var got []int
				for req := d.Take(time.Now()); req != nil; req = d.Take(time.Now()) {
					got = append(got, len(req.Events))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				d.Detach(handler.ErrLost)
				d.box.Stop(errStop)
			})
		})
	}
}

// An answer makes room. Events are sent in the order in which they were submitted.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(time.Minute).NewConsumer()
		results := make(chan string, 9)
		d.Attach(Window{Events: 2, Bytes: 100})
		waitingCalls(t, d, results, 1, 1, 1, 1)
		if diff := cmp.Diff([]string{"0 as 1", "1 as 2"}, taken(d.Take(time.Now()))); diff != "" {
			t.Error(diff)
		}
		d.Complete([]Outcome{{Seq: 2}})
		if got := <-results; got != "1: <nil>" {
			t.Error(got)
		}
		if diff := cmp.Diff([]string{"2 as 3"}, taken(d.Take(time.Now()))); diff != "" {
			t.Error(diff)
		}

		// The process goes away. Events that were with it are lost; waiting ones get new numbers.
		if diff := cmp.Diff([]uint64{1, 3}, d.Detach(handler.ErrLost)); diff != "" {
			t.Error(diff)
		}
		for range 2 {
			if got := <-results; !strings.HasSuffix(got, handler.ErrLost.Error()) {
				t.Error(got)
			}
		}
		d.Attach(Window{Events: 2, Bytes: 100})
		if diff := cmp.Diff([]string{"3 as 1"}, taken(d.Take(time.Now()))); diff != "" {
			t.Error(diff)
		}
		if d.Complete([]Outcome{{Seq: 3}}) == 0 {
			t.Error("an answer to an event of the last process counts")
		}
		d.box.Stop(errStop)
		d.Detach(handler.ErrLost)
		<-results
	})
}

// Time limits count from the sending on. At the limit, an event's place is free.
func TestExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(time.Minute).NewConsumer()
		results := make(chan string, 9)
		d.Attach(Window{Events: 2, Bytes: 100, Abandoned: 1, Patience: 10 * time.Minute})
		waitingCalls(t, d, results, 1, 1, 1)
		start := time.Now()
		d.Take(start)
		if next := d.Expire(start.Add(59 * time.Second)); !next.Equal(start.Add(time.Minute)) {
			t.Errorf("next is %v", next.Sub(start))
		}
		d.Complete([]Outcome{{Seq: 2}})
		<-results
		d.Take(start.Add(30 * time.Second))
		if next := d.Expire(start.Add(time.Minute)); !next.Equal(start.Add(90 * time.Second)) {
			t.Errorf("next is %v", next.Sub(start))
		}
		if got := <-results; got != "0: no answer within the time limit of 1m0s" {
			t.Error(got)
		}
		if diff := cmp.Diff([]uint64{1}, d.Take(start).Cancels); diff != "" {
			t.Error(diff)
		}
		if err := d.Overdue(start.Add(90 * time.Second)); err != nil {
			t.Errorf("one is allowed: %v", err)
		}
		d.Expire(start.Add(2 * time.Minute))
		<-results
		if err := d.Overdue(start.Add(2 * time.Minute)); err == nil {
			t.Error("two are not")
		}
		if d.Complete([]Outcome{{Seq: 1}}) != 0 || d.Overdue(start.Add(2*time.Minute)) != nil {
			t.Error("a late answer shows that the handler let go")
		}
		if d.Overdue(start.Add(time.Hour)) == nil {
			t.Error("one event had no answer for an hour")
		}
		if _, _, counts := d.Stats(); counts != (Counts{Sent: 3, Batches: 2, Answered: 1, TimedOut: 2, Late: 1}) {
			t.Errorf("%+v", counts)
		}
	})
}

// Nothing remains of an event whose caller gives up, wherever it is.
func TestGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(time.Minute).NewConsumer()
		d.Attach(Window{Events: 1, Bytes: 100, Abandoned: 9})
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		for range 2 {
			d.box.Submit(ctx, &handler.Event{}, func(_ handler.Answer, err error) { errs <- err })
		}
		synctest.Wait()
		d.Take(time.Now())
		cancel()
		for range 2 {
			if err := <-errs; err != context.Canceled {
				t.Errorf("got %v", err)
			}
		}
		if waiting, inFlight := waits(d), has(d); waiting != 0 || inFlight != 0 || len(d.bySeq) != 0 || d.sent.bytes != 0 {
			t.Errorf("left: %d, %d, %d, %d", waiting, inFlight, len(d.bySeq), d.sent.bytes)
		}
		if diff := cmp.Diff([]uint64{1}, d.Take(time.Now()).Cancels); diff != "" {
			t.Error(diff)
		}

		ctx, cancel = context.WithCancel(t.Context())
		d.box.Submit(ctx, &handler.Event{}, func(_ handler.Answer, err error) { errs <- err })
		d.Take(time.Now())
		cancel()
		<-errs
		if diff := cmp.Diff([]uint64{2}, d.Detach(handler.ErrLost)); diff != "" { // or the process would still work on it
			t.Error(diff)
		}
	})
}

// An event past its time limit may be the reason why its process was ended. The next event of its
// object, and only that one, gets an error that says so.
func TestEndedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(time.Minute).NewConsumer()
		d.Attach(Window{Events: 9, Bytes: 100, Abandoned: 9, Patience: time.Hour})
		results := make(chan error, 9)
		submit := func(rule, name string) {
			d.box.Submit(t.Context(), &handler.Event{Rule: rule, Name: name}, func(_ handler.Answer, err error) { results <- err })
		}
		submit("rule", "stuck")
		submit("rule", "slow")
		now := time.Now()
		d.Take(now)
		d.Expire(now.Add(time.Minute))
		for range 2 {
			if err := <-results; !errors.Is(err, handler.ErrNoAnswer) || errors.Is(err, handler.ErrLost) {
				t.Errorf("past the time limit: %v", err)
			}
		}
		d.Complete([]Outcome{{Seq: 2}}) // slow is let go of
		d.Fail(Lost(errors.New("it hangs")))

		submit("rule", "stuck")
		if err := <-results; !errors.Is(err, handler.ErrLost) || !errors.Is(err, errEndedWith) {
			t.Errorf("the next of that object: %v", err)
		}
		for _, o := range [][2]string{{"rule", "stuck"}, {"rule", "slow"}, {"other", "stuck"}} {
			submit(o[0], o[1])
		}
		if waiting := waits(d); waiting != 3 {
			t.Errorf("%d of three wait", waiting)
		}
		d.Attach(Window{Events: 9, Bytes: 100})
		d.Take(now)
		d.Expire(now.Add(time.Minute))
		for range 3 {
			<-results
		}
		submit("rule", "slow") // is with the process when it fails
		d.Take(now)
		submit("rule", "stuck") // waits
		d.Fail(Lost(errors.New("it hangs")))
		for range 2 {
			if err := <-results; !errors.Is(err, handler.ErrLost) {
				t.Errorf("what was with the process, or waited: %v", err)
			}
		}
		for _, o := range [][2]string{{"rule", "stuck"}, {"rule", "slow"}} { // have heard
			submit(o[0], o[1])
		}
		submit("other", "stuck")
		if err := <-results; !errors.Is(err, errEndedWith) {
			t.Errorf("the next of what was still to hear: %v", err)
		}
		if waiting := waits(d); waiting != 2 {
			t.Errorf("%d of two wait", waiting)
		}
		d.Attach(Window{Events: 9, Bytes: 100})
		submit("other", "stuck")
		d.Take(now)
		d.Expire(now.Add(time.Minute))
		d.Detach(Lost(errGone)) // no failure of the process
		submit("other", "stuck")
		if waiting := waits(d); waiting != 1 {
			t.Error("the end was nobody's fault")
		}
		d.box.Stop(errStop)
	})
}
