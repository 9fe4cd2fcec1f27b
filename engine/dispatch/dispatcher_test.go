package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// Objects proceed in parallel up to Concurrency, also over several rules. Events of one object of
// one rule never do.
func TestParallelism(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := recorder{answer: func(context.Context, handler.Event) error {
			<-release
			return nil
		}}
		d := New(Recipient{Handler: &h, Concurrency: 3}, NewLetterBox(LetterBoxOptions{}), Options{})
		one, two := d.Lane("one", pods, LaneOptions{Every: true}), d.Lane("two", pods, LaneOptions{Every: true})
		start(t, d)

		one.Offer(added("web", "u", 1))
		one.Offer(updated("web", "u", 2))
		synctest.Wait()
		equal(t, "one object of one rule", h.ids(), []string{"one/u/added/1"})

		two.Offer(added("web", "u", 1))
		synctest.Wait()
		equal(t, "another rule does not wait for it", d.InFlight(), 2)

		for i := range 5 {
			one.Offer(added(fmt.Sprint("db", i), fmt.Sprint("d", i), 1))
		}
		synctest.Wait()
		equal(t, "in flight", d.InFlight(), 3)

		for range 8 {
			release <- struct{}{}
			synctest.Wait()
			if n := d.InFlight(); n > 3 {
				t.Fatalf("%d in flight", n)
			}
		}
		equal(t, "in flight in the end", d.InFlight(), 0)
		equal(t, "events", len(h.ids()), 8)
	})
}

// Events for which the handler has no room stay in the lane. There they merge, and are not
// delivered after the test asked for the end.
func TestHandlerWithLessRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := recorder{answer: func(context.Context, handler.Event) error {
			<-release
			return nil
		}}
		var limit atomic.Int64
		limit.Store(1)
		d := New(Recipient{Handler: &h, Concurrency: 8, Limit: func() (int, bool) { return int(limit.Load()), false }},
			NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, LaneOptions{})
		stop := start(t, d)
		l.Offer(added("a", "a", 1))
		l.Offer(added("b", "b", 1))
		synctest.Wait()
		l.Offer(updated("b", "b", 2))
		equal(t, "in flight", d.InFlight(), 1)
		equal(t, "waiting", l.Stats().Waiting, 1)

		limit.Store(2)
		l.Offer(added("c", "c", 1))
		synctest.Wait()
		equal(t, "in flight when it takes more", d.InFlight(), 2)

		limit.Store(1)
		release <- struct{}{}
		synctest.Wait()
		equal(t, "in flight when it takes fewer again", d.InFlight(), 1)
		go stop()
		synctest.Wait()
		close(release)
		stop()
		equal(t, "events", h.ids(), []string{"r/a/added/1", "r/b/added/2"})
		equal(t, "what waits at the end", l.Stats().Waiting, 1)
	})
}

func TestLatestMergesWaitingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := recorder{answer: func(context.Context, handler.Event) error {
			<-release
			return nil
		}}
		d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		l.Offer(added("web", "u", 1))
		synctest.Wait()
		for version := 2; version < 100; version++ {
			l.Offer(updated("web", "u", version))
		}
		equal(t, "waiting", l.Stats().Waiting, 1)
		close(release)
		synctest.Wait()
		equal(t, "events", h.ids(), []string{"r/u/added/1", "r/u/updated/99"})
		equal(t, "old is the first", string(h.events[1].Old), string(pod("web", "u", 1).JSON()))
	})
}

func TestEveryKeepsOrderThroughRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := map[string]bool{}
		h := recorder{answer: func(_ context.Context, ev handler.Event) error {
			if !failed[ev.ID] {
				failed[ev.ID] = true
				return errors.New("not now")
			}
			return nil
		}}
		d := New(Recipient{Handler: &h, Concurrency: 1}, NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, LaneOptions{Every: true})
		start(t, d)
		l.Offer(added("web", "u", 1))
		l.Offer(updated("web", "u", 2))
		l.Offer(deleted("web", "u", 3))
		pass(time.Minute)
		equal(t, "events", h.ids(), []string{
			"r/u/added/1", "r/u/added/1 #2", "r/u/updated/2", "r/u/updated/2 #2", "r/u/deleted/3", "r/u/deleted/3 #2",
		})
	})
}

// A rule with a backlog gets every second delivery, not all of them.
func TestLanesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h recorder
		d := New(Recipient{Handler: &h, Concurrency: 1}, NewLetterBox(LetterBoxOptions{}), Options{})
		busy, quiet := d.Lane("busy", pods, LaneOptions{}), d.Lane("quiet", pods, LaneOptions{})
		for i := range 1000 {
			busy.Offer(added(fmt.Sprint("b", i), fmt.Sprint("b", i), 1))
		}
		for i := range 3 {
			quiet.Offer(added(fmt.Sprint("q", i), fmt.Sprint("q", i), 1))
		}
		start(t, d)
		synctest.Wait()
		var order []string
		for _, ev := range h.events[:8] {
			order = append(order, ev.Rule)
		}
		equal(t, "order", strings.Join(order, " "), "busy quiet busy quiet busy quiet busy busy")
		equal(t, "events", len(h.events), 1003)
	})
}

// While the handler is not ready, the dispatcher takes nothing, so what waits goes on merging.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h recorder
		open := make(chan struct{})
		asked := 0
		d := New(Recipient{Handler: &h, Ready: func(ctx context.Context) error {
			if asked++; asked == 1 {
				return errors.New("cannot even tell")
			}
			select {
			case <-open:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}, NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, LaneOptions{})
		stop := start(t, d)
		l.Offer(added("web", "u", 1))
		pass(time.Hour)
		l.Offer(updated("web", "u", 2))
		equal(t, "events before it is ready", h.ids(), nil)
		close(open)
		synctest.Wait()
		equal(t, "events", h.ids(), []string{"r/u/added/2"})
		stop()
	})
}

func TestStopsWhileNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Recipient{Handler: &recorder{}, Ready: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}, NewLetterBox(LetterBoxOptions{}), Options{})
		l := d.Lane("r", pods, LaneOptions{})
		l.Offer(added("web", "u", 1))
		stop := start(t, d)
		synctest.Wait()
		stop()
		equal(t, "waiting", l.Stats().Waiting, 1)
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var ended atomic.Int32
		h := recorder{answer: func(ctx context.Context, ev handler.Event) error {
			took := 5 * time.Second
			if ev.Name == "slow" {
				took = time.Hour
			}
			select {
			case <-time.After(took):
				ended.Add(1)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		var seen results
		dead := NewLetterBox(LetterBoxOptions{})
		d := New(Recipient{Handler: &h, Concurrency: 2, Retry: Retry{Attempts: 1}}, dead,
			Options{DrainTimeout: 10 * time.Second, Attempted: seen.add})
		l := d.Lane("r", pods, LaneOptions{})
		stop := start(t, d)
		for _, name := range []string{"slow", "quick", "late"} {
			l.Offer(added(name, name, 1))
		}
		synctest.Wait()
		stop()
		equal(t, "until Run returned", time.Since(began), 10*time.Second)
		equal(t, "ended in time", ended.Load(), 1)
		equal(t, "events: nothing new was taken", len(h.events), 2)
		equal(t, "waiting: what was cancelled, and what was never taken", l.Stats().Waiting, 2)
		equal(t, "dead letters: being cut short is not the event's fault", letters(dead), nil)
		equal(t, "result", seen.list()[1].Result, Cancelled)
	})
}

func TestClosedLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := recorder{answer: func(ctx context.Context, ev handler.Event) error {
			time.Sleep(time.Second)
			return errors.New("again")
		}}
		d := New(Recipient{Handler: &h, Concurrency: 1}, NewLetterBox(LetterBoxOptions{}), Options{})
		gone, stays := d.Lane("gone", pods, LaneOptions{}), d.Lane("stays", pods, LaneOptions{})
		start(t, d)
		gone.Offer(added("web", "u", 1))
		gone.Offer(added("db", "v", 1))
		synctest.Wait()
		gone.Close()
		gone.Offer(added("api", "w", 1))
		stays.Offer(added("web", "u", 1))
		pass(1500 * time.Millisecond)
		equal(t, "events", h.ids(), []string{"gone/u/added/1", "stays/u/added/1"})
	})
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []error{handler.RetryAfter(time.Minute, nil), nil, handler.Reject(nil), handler.ErrLost, nil}
		h := recorder{answer: func(context.Context, handler.Event) (err error) {
			time.Sleep(time.Second)
			err, answers = answers[0], answers[1:]
			return err
		}}
		var seen results
		d := New(Recipient{Name: "h", Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{Attempted: seen.add})
		l := d.Lane("r", pods, LaneOptions{})
		start(t, d)
		for version := range 3 {
			l.Offer(updated("web", "u", version+1))
			pass(3 * time.Minute)
		}
		var got []Result
		for _, delivery := range seen.list() {
			got = append(got, delivery.Result)
			equal(t, "duration", delivery.Duration, time.Second)
			equal(t, "names", delivery.Rule+" "+delivery.Handler, "r h")
		}
		equal(t, "results", got, []Result{Retried, Done, Rejected, Lost, Done})
		if latency := seen.list()[1].Latency; latency < 62*time.Second || latency > 74*time.Second {
			t.Errorf("latency of a change retried after a minute: %v", latency)
		}
	})
}

// If failures have different reasons, such as several missing permissions, a few are logged each
// minute. The first does not hide the others.
func TestLogOfDifferentFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := recorder{answer: func(_ context.Context, ev handler.Event) error { return errors.New(ev.Name + " may not") }}
		var log bytes.Buffer
		d := New(Recipient{Name: "h", Handler: &h, Retry: Retry{Backoff: time.Second, MaxBackoff: time.Second}}, NewLetterBox(LetterBoxOptions{}),
			Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l := d.Lane("r", pods, LaneOptions{})
		stop := start(t, d)
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			l.Offer(added(name, name, 1))
			pass(10 * time.Millisecond)
		}
		pass(55 * time.Second)
		stop()
		var said []string
		for line := range strings.Lines(log.String()) {
			_, reason, _ := strings.Cut(line, "reason=\"")
			said = append(said, reason[:1])
		}
		equal(t, "said", said, []string{"a", "b", "c", "d"})
	})
}

// Failures are logged, but not each of them, and without the contents of objects.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := recorder{answer: func(_ context.Context, ev handler.Event) error {
			if ev.Name == "refused" {
				return handler.Reject(errors.New(strings.Repeat("x", 1<<20) + "\xff"))
			}
			return errors.New("down")
		}}
		var log bytes.Buffer
		d := New(Recipient{Name: "h", Handler: &h, Retry: Retry{MaxBackoff: time.Second}}, NewLetterBox(LetterBoxOptions{}),
			Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l := d.Lane("r", pods, LaneOptions{})
		stop := start(t, d)
		l.Offer(added("refused", "u", 1))
		l.Offer(added("failing", "v", 1))
		pass(90 * time.Second)
		stop()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		slices.SortFunc(lines, func(a, b string) int { return strings.Index(a, "msg=") - strings.Index(b, "msg=") })
		equal(t, "lines", len(lines), 3) // a dead letter, and two complaints in a minute and a half
		for _, line := range lines {
			if len(line) > 600 || strings.Contains(line, "metadata") || !strings.Contains(line, "handler=h rule=r key=shop/") {
				t.Errorf("%.1000s", line)
			}
		}
	})
}

// The log says that history is shortened, even while the handler takes nothing, but not each time.
func TestLogOfCrowding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		away := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		d := New(Recipient{Handler: &recorder{}, Ready: away}, NewLetterBox(LetterBoxOptions{}), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l := d.Lane("r", pods, LaneOptions{Every: true, MaxItems: 2})
		stop := start(t, d)
		for version := 1; version <= 90; version++ {
			l.Offer(updated("web", "u", version))
			time.Sleep(time.Second)
		}
		stop()
		equal(t, "lines", strings.Count(log.String(), "too many changes wait"), 2)
		equal(t, "waiting", l.Stats().Waiting, 2)
		equal(t, "shortened", l.Stats().Shortened, 88)
	})
}
