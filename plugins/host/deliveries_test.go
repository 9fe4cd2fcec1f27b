package host

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

// call puts n events of the given sizes into d, each from a caller of its own, and leaves them waiting, in order.
func waitingCalls(t *testing.T, d *deliveries, results chan<- string, sizes ...int) {
	t.Helper()
	for i, size := range sizes {
		ev := handler.Event{Name: fmt.Sprint(i), Object: make([]byte, size)}
		d.submit(t.Context(), &ev, func(_ handler.Answer, err error) { results <- fmt.Sprintf("%d: %v", i, err) })
	}
}

// taken names the events of a message.
func taken(b *batch) []string {
	var names []string
	for _, c := range b.calls {
		names = append(names, fmt.Sprintf("%s as %d", c.event.Name, c.seq))
	}
	return names
}

func TestWindow(t *testing.T) {
	const kb, mb = 1 << 10, 1 << 20
	for _, c := range []struct {
		why    string
		window window
		sizes  []int
		want   []int // events in each message, as long as nothing is answered
	}{
		{"as many events as the window has", window{events: 2, bytes: mb}, []int{1, 1, 1}, []int{2}},
		{"as many bytes as the window has", window{events: 9, bytes: 10}, []int{4, 4, 4}, []int{2}},
		{"a larger one goes alone", window{events: 9, bytes: 10}, []int{20, 1}, []int{1}},
		{"and waits for that", window{events: 9, bytes: 10}, []int{1, 20, 1}, []int{1}},
		{"batches of 32 events", window{events: 99, bytes: mb}, make([]int, 70), []int{32, 32, 6}},
		{"batches of 1 MiB", window{events: 99, bytes: 64 * mb}, []int{600 * kb, 600 * kb, 100 * kb, 3 * mb, 1}, []int{1, 2, 1, 1}},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDeliveries(time.Minute, &debts{})
				results := make(chan string, len(c.sizes))
				waitingCalls(t, d, results, c.sizes...)
				if d.take(time.Now()) != nil {
					t.Error("taken without a process")
				}
				d.attach(c.window)
				var got []int
				for req := d.take(time.Now()); req != nil; req = d.take(time.Now()) {
					got = append(got, len(req.calls))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				d.detach(handler.ErrLost)
				d.stop(errStopped)
			})
		})
	}
}

// An answer makes room; what waits goes on in the order in which it came.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeliveries(time.Minute, &debts{})
		results := make(chan string, 9)
		d.attach(window{events: 2, bytes: 100})
		waitingCalls(t, d, results, 1, 1, 1, 1)
		if diff := cmp.Diff([]string{"0 as 1", "1 as 2"}, taken(d.take(time.Now()))); diff != "" {
			t.Error(diff)
		}
		d.complete([]outcome{{seq: 2}})
		if got := <-results; got != "1: <nil>" {
			t.Error(got)
		}
		if diff := cmp.Diff([]string{"2 as 3"}, taken(d.take(time.Now()))); diff != "" {
			t.Error(diff)
		}

		// The process goes away: what was with it is lost, what waits is numbered anew.
		if diff := cmp.Diff([]uint64{1, 3}, d.detach(handler.ErrLost)); diff != "" {
			t.Error(diff)
		}
		for range 2 {
			if got := <-results; !strings.HasSuffix(got, handler.ErrLost.Error()) {
				t.Error(got)
			}
		}
		d.attach(window{events: 2, bytes: 100})
		if diff := cmp.Diff([]string{"3 as 1"}, taken(d.take(time.Now()))); diff != "" {
			t.Error(diff)
		}
		if d.complete([]outcome{{seq: 3}}) == 0 {
			t.Error("an answer to an event of the last process counts")
		}
		d.stop(errStopped)
		d.detach(handler.ErrLost)
		<-results
	})
}

// Time limits count from the sending on, in the order of sending, and free the place.
func TestExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeliveries(time.Minute, &debts{})
		results := make(chan string, 9)
		d.attach(window{events: 2, bytes: 100, abandoned: 1, patience: 10 * time.Minute})
		waitingCalls(t, d, results, 1, 1, 1)
		start := time.Now()
		d.take(start)
		if next := d.expire(start.Add(59 * time.Second)); !next.Equal(start.Add(time.Minute)) {
			t.Errorf("next is %v", next.Sub(start))
		}
		d.complete([]outcome{{seq: 2}})
		<-results
		d.take(start.Add(30 * time.Second))
		if next := d.expire(start.Add(time.Minute)); !next.Equal(start.Add(90 * time.Second)) {
			t.Errorf("next is %v", next.Sub(start))
		}
		if got := <-results; got != "0: no answer within the time limit of 1m0s" {
			t.Error(got)
		}
		if diff := cmp.Diff([]uint64{1}, d.take(start).cancels); diff != "" {
			t.Error(diff)
		}
		if err := d.overdue(start.Add(90 * time.Second)); err != nil {
			t.Errorf("one is allowed: %v", err)
		}
		d.expire(start.Add(2 * time.Minute))
		<-results
		if err := d.overdue(start.Add(2 * time.Minute)); err == nil {
			t.Error("two are not")
		}
		if d.complete([]outcome{{seq: 1}}) != 0 || d.overdue(start.Add(2*time.Minute)) != nil {
			t.Error("a late answer shows that the handler let go")
		}
		if d.overdue(start.Add(time.Hour)) == nil {
			t.Error("one event had no answer for an hour")
		}
		if _, _, counts := d.stats(); counts != (Counts{Sent: 3, Batches: 2, Answered: 1, TimedOut: 2, Late: 1}) {
			t.Errorf("%+v", counts)
		}
	})
}

// A caller that gives up leaves nothing behind, wherever its event is.
func TestGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeliveries(time.Minute, &debts{})
		d.attach(window{events: 1, bytes: 100, abandoned: 9})
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		for range 2 {
			d.submit(ctx, &handler.Event{}, func(_ handler.Answer, err error) { errs <- err })
		}
		synctest.Wait()
		d.take(time.Now())
		cancel()
		for range 2 {
			if err := <-errs; err != context.Canceled {
				t.Errorf("got %v", err)
			}
		}
		if waiting, inFlight, _ := d.stats(); waiting != 0 || inFlight != 0 || len(d.bySeq) != 0 || d.sent.bytes != 0 {
			t.Errorf("left: %d, %d, %d, %d", waiting, inFlight, len(d.bySeq), d.sent.bytes)
		}
		if diff := cmp.Diff([]uint64{1}, d.take(time.Now()).cancels); diff != "" {
			t.Error(diff)
		}

		ctx, cancel = context.WithCancel(t.Context())
		d.submit(ctx, &handler.Event{}, func(_ handler.Answer, err error) { errs <- err })
		d.take(time.Now())
		cancel()
		<-errs
		if diff := cmp.Diff([]uint64{2}, d.detach(handler.ErrLost)); diff != "" { // or the process would still work on it
			t.Error(diff)
		}
	})
}

// An event whose time was over when its process was ended may be why. Its object hears of it with what comes next, once.
func TestEndedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeliveries(time.Minute, &debts{})
		d.attach(window{events: 9, bytes: 100, abandoned: 9, patience: time.Hour})
		results := make(chan error, 9)
		submit := func(rule, name string) {
			d.submit(t.Context(), &handler.Event{Rule: rule, Name: name}, func(_ handler.Answer, err error) { results <- err })
		}
		submit("rule", "stuck")
		submit("rule", "slow")
		now := time.Now()
		d.take(now)
		d.expire(now.Add(time.Minute))
		for range 2 {
			if err := <-results; !errors.Is(err, handler.ErrNoAnswer) || errors.Is(err, handler.ErrLost) {
				t.Errorf("past the time limit: %v", err)
			}
		}
		d.complete([]outcome{{seq: 2}}) // slow is let go of
		d.fail(lost(errors.New("it hangs")))

		submit("rule", "stuck")
		if err := <-results; !errors.Is(err, handler.ErrLost) || !errors.Is(err, errEndedWith) {
			t.Errorf("the next of that object: %v", err)
		}
		for _, o := range [][2]string{{"rule", "stuck"}, {"rule", "slow"}, {"other", "stuck"}} {
			submit(o[0], o[1])
		}
		if waiting, _, _ := d.stats(); waiting != 3 {
			t.Errorf("%d of three wait", waiting)
		}
		d.attach(window{events: 9, bytes: 100})
		d.take(now)
		d.expire(now.Add(time.Minute))
		for range 3 {
			<-results
		}
		submit("rule", "slow") // is with the process when it fails
		d.take(now)
		submit("rule", "stuck") // waits
		d.fail(lost(errors.New("it hangs")))
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
		if waiting, _, _ := d.stats(); waiting != 2 {
			t.Errorf("%d of two wait", waiting)
		}
		d.attach(window{events: 9, bytes: 100})
		submit("other", "stuck")
		d.take(now)
		d.expire(now.Add(time.Minute))
		d.detach(lost(errSuperseded)) // no failure of the process
		submit("other", "stuck")
		if waiting, _, _ := d.stats(); waiting != 1 {
			t.Error("the end was nobody's fault")
		}
		d.stop(errStopped)
	})
}
