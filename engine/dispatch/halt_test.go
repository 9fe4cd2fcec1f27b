package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

var errDeposed = errors.New("another process writes the log")

// failsFrom makes a journal's nth Await fail, and all that follow. It returns how many there were.
func (s *shelf) failsFrom(n int64) *atomic.Int64 {
	asked := new(atomic.Int64)
	s.awaits = func(context.Context, uint64) error {
		if asked.Add(1) >= n {
			return errDeposed
		}
		return nil
	}
	return asked
}

// killed returns what the next process finds, if everything was written that was recorded.
func (s *shelf) killed() *shelf {
	s.write()
	return s.kill()
}

// delivers returns the ids that a run over s delivers.
func (s *shelf) delivers(t *testing.T, o LaneOptions) []string {
	t.Helper()
	var h recorder
	d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{Journal: s})
	o.Store, s.writes = s, true
	s.restore(d.Lane("r", pods, o))
	stop := start(t, d)
	synctest.Wait()
	stop()
	return h.ids()
}

// An event whose record cannot be written is not handed over, nor is any other. It stays in its
// lane, as if the process had been killed just before.
func TestUnwrittenIsNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		asked := s.failsFrom(2)
		var h recorder
		var r results
		var log bytes.Buffer
		d := New(Recipient{Name: "h", Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{
			Journal: s, Attempted: r.add, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		l := d.Lane("r", pods, LaneOptions{Store: s})
		stop := start(t, d)
		s.offer(l, added("web", "u", 1))
		synctest.Wait()
		s.offer(l, added("db", "v", 1), added("mail", "w", 1))
		pass(time.Hour)
		s.offer(l, updated("db", "v", 2), added("new", "x", 1))
		l.RetryNow(func(delta.Key) bool { return true })
		pass(time.Hour)
		equal(t, "events", h.ids(), []string{"r/u/added/1"})
		equal(t, "results", r.of(), []Result{Done})
		equal(t, "calls of Await", asked.Load(), 2)
		equal(t, "in flight", d.InFlight(), 0)
		equal(t, "waiting", l.Stats().Waiting, 3)
		equal(t, "lines", strings.Count(log.String(), "deliveries stop"), 1)
		for _, kept := range s.all() {
			equal(t, "attempts", kept.Value.Attempts, 0)
		}
		stop()
		want := []string{"r/v/added/2", "r/w/added/1", "r/x/added/1"}
		got := s.killed().delivers(t, LaneOptions{})
		slices.Sort(got)
		equal(t, "the next run delivers", got, want)
	})
}

// Run ends with its context while it waits for a record, and hands nothing over.
func TestEndWhileARecordIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		s.awaits = func(ctx context.Context, _ uint64) error {
			<-ctx.Done()
			return ctx.Err()
		}
		var h recorder
		var log bytes.Buffer
		d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{
			Journal: s, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		l := d.Lane("r", pods, LaneOptions{Store: s})
		stop := start(t, d)
		s.offer(l, added("web", "u", 1))
		pass(time.Hour)
		equal(t, "in flight", d.InFlight(), 1)
		stop()
		equal(t, "events", h.ids(), nil)
		equal(t, "in flight", d.InFlight(), 0)
		equal(t, "waiting", l.Stats().Waiting, 1)
		equal(t, "log", log.String(), "")
		equal(t, "the next run delivers", s.killed().delivers(t, LaneOptions{}), []string{"r/u/added/1"})
	})
}

func TestStepOfAnUnwrittenEvent(t *testing.T) {
	s := newShelf(t)
	s.failsFrom(1)
	var h recorder
	d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{Journal: s, IsStepped: true})
	l := d.Lane("r", pods, LaneOptions{Store: s})
	s.offer(l, added("web", "u", 1))
	for range 2 {
		if _, ok := d.Step(t.Context()); ok {
			t.Error("it made an attempt")
		}
	}
	equal(t, "events", h.ids(), nil)
	equal(t, "waiting", l.Stats().Waiting, 1)
	l.Close()
}

// counting is a Preparer that decides and counts each event.
type counting struct{}

func (counting) Prepare(_ context.Context, d delivery.Draft) (delivery.Prepared, error) {
	p := delivery.Prepared{Delta: d.Delta, Payload: json.RawMessage(`"decided"`)}
	if d.Undecided {
		p.Count = new(count.Hit)
	}
	return p, nil
}

func (counting) IsConfidential() bool { return false }

// An attempt that has to write something before the event goes on ends, and does not count, if that
// fails.
func TestUnwrittenCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		asked := s.failsFrom(2) // the first is that of the event
		var h recorder
		var r results
		d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{Journal: s, Attempted: r.add})
		o := LaneOptions{Preparer: counting{}, Count: func(delta.Delta, count.Hit) bool { return true }, Store: s}
		l := d.Lane("r", pods, o)
		stop := start(t, d)
		s.offer(l, undecided(added("web", "u", 1)))
		pass(time.Hour)
		equal(t, "events", h.ids(), nil)
		equal(t, "attempts", len(r.list()), 0)
		equal(t, "calls of Await", asked.Load(), 2)
		equal(t, "in flight", d.InFlight(), 0)
		equal(t, "waiting", l.Stats().Waiting, 1)
		stop()
		equal(t, "the next run delivers", s.killed().delivers(t, o), []string{"r/u/added/1"})
	})
}

func TestUnwrittenGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to recorder
		g := startGroups(t, &groups{to: &to}, LaneOptions{
			Gathering: &Gathering{By: "all", Of: allInOne, Wait: time.Second},
			Preparer:  counting{}, Count: func(delta.Delta, count.Hit) bool { return true },
		})
		asked := g.queued.failsFrom(2)
		g.offer(allInOne, undecided(added("a", "ua", 1)), undecided(added("b", "ub", 1)))
		pass(time.Hour)
		equal(t, "events", to.groups(), nil)
		equal(t, "calls of Await", asked.Load(), 2)
		equal(t, "waiting", g.lane.Stats().Waiting, 1)
		for _, kept := range g.queued.all() {
			equal(t, "attempts", kept.Value.Attempts, 0)
		}
		g.end()
		g.lane.Close()
	})
}

// The actions of an answer that cannot be recorded are not performed if the journal is strict. The
// next run asks the handler again.
func TestUnwrittenAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		s.failing = true
		s.failsFrom(2)
		var a deeds
		var h recorder
		var r results
		d := New(Recipient{Handler: patching(&h)}, NewLetterBox(LetterBoxOptions{}), Options{
			Journal: s, Actor: &actor{do: a.do}, Attempted: r.add,
		})
		l := d.Lane("r", pods, LaneOptions{Store: s})
		start(t, d)
		s.offer(l, added("web", "u", 1))
		pass(time.Hour)
		equal(t, "actions", a.list(), nil)
		equal(t, "events", h.ids(), []string{"r/u/added/1"})
		equal(t, "results", r.of(), []Result{Cancelled})
		equal(t, "waiting", l.Stats().Waiting, 1)
	})
}

// Once a record could not be written, the actions of answers that come later are not performed,
// whether they are to be recorded or not.
func TestAnswerAfterAFailure(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint("recorded: ", keeps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				s.failsFrom(2)
				var a deeds
				answer := make(chan struct{})
				h := recorder{answer: func(context.Context, handler.Event) error {
					<-answer
					return nil
				}}
				d := New(Recipient{Handler: patching(&h)}, NewLetterBox(LetterBoxOptions{}), Options{
					Journal: s, Actor: &actor{do: a.do},
				})
				l := d.Lane("r", pods, preparer{secret: func() bool { return !keeps }}.lane(LaneOptions{Store: s}))
				start(t, d)
				s.offer(l, added("web", "u", 1))
				synctest.Wait()
				s.offer(l, added("db", "v", 1))
				synctest.Wait()
				close(answer)
				pass(time.Hour)
				equal(t, "actions", a.list(), nil)
				equal(t, "events", h.ids(), []string{"r/u/added/1"})
				equal(t, "waiting", l.Stats().Waiting, 2)
			})
		})
	}
}

// An Actor that could not write what it recorded, or that may not lead any more, stops the
// dispatcher. Its attempt does not count.
func TestActorStopsEverything(t *testing.T) {
	for why, line := range map[error]string{
		ErrUnwritten:  "deliveries stop until the next start, because their records are not written",
		ErrNotLeading: "deliveries stop, because this informd may not lead any more",
	} {
		for _, asks := range []bool{true, false} {
			t.Run(fmt.Sprint(why, asks), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testActorStops(t, why, line, asks) })
			})
		}
	}
}

// testActorStops has the actions of a handler's answer stop, or those of a rule itself.
func testActorStops(t *testing.T, why error, line string, asks bool) {
	s := newShelf(t)
	tries := 0
	var r results
	var log bytes.Buffer
	var h recorder
	to, o := Recipient{Handler: patching(&h)}, LaneOptions{Store: s}
	if !asks {
		to = Recipient{}
		o = preparer{actions: func(_ context.Context, d delta.Delta) ([]handler.Action, error) {
			return []handler.Action{{Verb: handler.ActionDelete, Resource: pods, Name: d.Object.Name()}}, nil
		}}.lane(o)
	}
	d := New(to, NewLetterBox(LetterBoxOptions{}), Options{
		Journal: s, Attempted: r.add, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Actor: &actor{do: func(context.Context, *handler.Event, []handler.Action) error {
			tries++
			return Plain(fmt.Errorf("%w: %w", why, errDeposed))
		}},
	})
	l := d.Lane("r", pods, o)
	start(t, d)
	s.offer(l, added("web", "u", 1))
	pass(time.Hour)
	equal(t, "tries", tries, 1)
	equal(t, "results", r.of(), []Result{Cancelled})
	equal(t, "waiting", l.Stats().Waiting, 1)
	equal(t, "lines", strings.Count(log.String(), line), 1)
	equal(t, "lines", strings.Count(log.String(), errDeposed.Error()), 1)
}
