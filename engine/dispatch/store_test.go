package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// recorded returns a dispatcher with one lane that s records, and that starts from the records in
// s.
func recorded(s *shelf, h handler.Handler, dead DeadLetters, o LaneOptions) (*Dispatcher, *Lane) {
	d := New(Recipient{Name: "h", Handler: h, Retry: Retry{MaxBackoff: time.Hour, Backoff: time.Minute}}, dead, Options{Journal: s})
	o.Store = s
	l := d.Lane("r", pods, o)
	s.restore(l)
	return d, l
}

func TestDeliveryIsRecordedUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		answers := make(chan error) // each message is one answer
		h := recorder{answer: func(context.Context, handler.Event) error { return <-answers }}
		d, l := recorded(s, &h, NewLetterBox(LetterBoxOptions{}), LaneOptions{})
		start(t, d)
		offered := time.Now()
		m := added("web", "u", 1)
		m.Payload = []byte(`{"a":1}`)
		s.offer(l, m)
		synctest.Wait()
		want := record{Value: delivery.Delivery{Delta: m.Delta, Payload: m.Payload}, Since: offered}
		equalRecords(t, "in flight", s.all(), want)

		answers <- handler.RetryAfter(time.Hour, errors.New("busy"))
		synctest.Wait()
		want.Value.Attempts, want.Value.Failures, want.Sent = 1, 1, true
		got := s.all()
		if due := got[0].Due.Sub(offered); due < time.Hour || due > 72*time.Minute {
			t.Errorf("it is due after %v", due)
		}
		got[0].Due = time.Time{}
		equalRecords(t, "to be repeated", got, want)

		pass(2 * time.Hour)
		answers <- nil
		synctest.Wait()
		equalRecords(t, "done", s.all())
	})
}

func equalRecords(t *testing.T, what string, got []record, want ...record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d records, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i].Value.Delta != want[i].Value.Delta {
			t.Fatalf("%s: record %d is of %s, want %s", what, i, got[i].Value.Delta.ID("r"), want[i].Value.Delta.ID("r"))
		}
		got[i].Value.Delta, want[i].Value.Delta = delta.Delta{}, delta.Delta{}
		equal(t, what, got[i], want[i])
	}
}

// After a restart, waiting events come with the ids, attempts and delays that they had.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		h := recorder{answer: func(ctx context.Context, ev handler.Event) error {
			if ev.Name == "failing" {
				return errors.New("down")
			}
			<-ctx.Done() // it is in flight when the process is killed
			return ctx.Err()
		}}
		d, l := recorded(s, &h, NewLetterBox(LetterBoxOptions{}), LaneOptions{Every: true})
		stop := start(t, d)
		s.offer(l, added("failing", "f", 1), added("web", "w", 1), updated("web", "w", 2))
		pass(time.Second)
		s.write()
		s.offer(l, updated("web", "w", 3)) // this is not written
		next := s.kill()
		stop()

		var again recorder
		d, l = recorded(next, &again, NewLetterBox(LetterBoxOptions{}), LaneOptions{Every: true})
		equal(t, "away", l.Stats().Away, 3)
		start(t, d)
		next.offer(l, updated("web", "w", 3)) // the source repeats it
		pass(time.Second)
		equal(t, "at once", again.ids(), []string{"r/w/added/1", "r/w/updated/2", "r/w/updated/3"})
		equal(t, "delayed", l.Stats().Delayed, 1)
		pass(time.Minute)
		equal(t, "then", again.ids()[3:], []string{"r/f/added/1 #2"})
		equal(t, "records", next.ids(), nil)
	})
}

// A delivery that is cancelled at shutdown is unchanged, and comes again.
func TestShutdownKeepsRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		h := recorder{answer: func(ctx context.Context, _ handler.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		d, l := recorded(s, &h, NewLetterBox(LetterBoxOptions{}), LaneOptions{})
		stop := start(t, d)
		m := added("web", "u", 1)
		offered := time.Now()
		s.offer(l, m)
		synctest.Wait()
		stop()
		l.Close()
		equalRecords(t, "records", s.all(), record{Value: delivery.Delivery{Delta: m.Delta}, Since: offered, Sent: true})
	})
}

// One change records the dead letter and deletes its delivery.
func TestDeadLetterAndDeliveryAreOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		cuts := &cuts{shelf: s, letters: map[string]bool{}}
		h := recorder{answer: func(context.Context, handler.Event) error { return handler.ErrReject }}
		dead := NewLetterBox(LetterBoxOptions{Store: cuts})
		d := New(Recipient{Handler: &h}, dead, Options{Journal: cuts})
		l := d.Lane("r", pods, LaneOptions{Store: s})
		start(t, d)
		cuts.Begin()
		l.Offer(added("web", "u", 1))
		cuts.End()
		synctest.Wait()
		equal(t, "letters", cuts.letters, map[string]bool{"r/u/added/1": true})

		letter, _ := dead.Take("r/u/added/1")
		cuts.Begin()
		l.Redrive(letter)
		cuts.End()
		synctest.Wait()
		equal(t, "events", h.ids(), []string{"r/u/added/1", "r/u/added/1 #2"})
		equal(t, "letters", cuts.letters, map[string]bool{"r/u/added/1": true})
	})
}

// cuts is a Journal that checks after each change that the event is either with the lane or with
// the dead letters. It takes one change at a time: others would be seen in the middle.
type cuts struct {
	*shelf
	one     sync.Mutex
	letters map[string]bool
}

func (c *cuts) Begin() {
	c.one.Lock()
	c.shelf.Begin()
}

func (c *cuts) PutLetter(l delivery.Letter) { c.letters[l.ID] = true }
func (c *cuts) DeleteLetter(id string)      { delete(c.letters, id) }

func (c *cuts) End() {
	if waiting := len(c.ids()); waiting+len(c.letters) != 1 {
		c.t.Errorf("after a change %d deliveries wait and %d are dead, want 1 in all", waiting, len(c.letters))
	}
	c.shelf.End()
	c.one.Unlock()
}

// A handler that is away costs bounded memory. When it is back, it receives everything in order.
func TestBacklogContinuesInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		s.writes = true
		var h recorder
		d, l := recorded(s, &h, NewLetterBox(LetterBoxOptions{}), LaneOptions{Every: true, MaxItems: 10})
		var want []string
		for version := 2; version < 300; version++ {
			m := updated("web", "u", version)
			s.offer(l, m)
			want = append(want, m.Delta.ID("r"))
		}
		equal(t, "in memory", l.Stats().Waiting, 10)
		start(t, d)
		pass(time.Minute)
		equal(t, "events", h.ids(), want)
		equal(t, "records", s.ids(), nil)
	})
}

// A store that is slow or fails holds up what it holds, and nothing else.
func TestSlowStoreDelaysOnlyItsLane(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint("fails ", fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf(t)
				var h recorder
				_, l := recorded(s, &h, NewLetterBox(LetterBoxOptions{}), LaneOptions{})
				s.offer(l, added("away", "a", 1))
				s.write()

				s = s.kill()
				s.slow, s.failing = time.Hour, fails
				d, l := recorded(s, &h, NewLetterBox(LetterBoxOptions{}), LaneOptions{})
				other := d.Lane("other", pods, LaneOptions{})
				stop := start(t, d)
				for version := range 3 {
					s.offer(l, updated("web", "w", version+1))
					other.Offer(updated("web", "w", version+1))
					pass(time.Second)
				}
				equal(t, "events", len(h.ids()), 6)
				s.mu.Lock()
				s.failing, s.slow = false, 0
				s.mu.Unlock()
				pass(2 * time.Hour)
				equal(t, "events in the end", len(h.ids()), 7)
				stop()
			})
		})
	}
}

// The loader leaves a lane alone for a while after its store failed.
func TestFailingStoreIsRetriedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		var h recorder
		_, l := recorded(s, &h, NewLetterBox(LetterBoxOptions{}), LaneOptions{})
		for i := range 1000 {
			s.offer(l, added(fmt.Sprint(i), fmt.Sprint(i), 1))
		}
		s.write()
		s = s.kill()
		s.failing = true
		d, l := recorded(s, &h, NewLetterBox(LetterBoxOptions{}), LaneOptions{})
		start(t, d)
		for range 600 {
			s.offer(l, updated("web", "w", 1)) // whatever comes meanwhile
			pass(100 * time.Millisecond)
		}
		s.mu.Lock()
		if s.loads > 25 {
			t.Errorf("%d loads in a minute", s.loads)
		}
		s.failing = false
		s.mu.Unlock()
		pass(time.Minute)
		equal(t, "events", len(h.ids()), 1600)
	})
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h recorder
		d := New(Recipient{Handler: &h, Concurrency: 1}, NewLetterBox(LetterBoxOptions{}), Options{})
		l, other := d.Lane("r", pods, LaneOptions{}), d.Lane("other", pods, LaneOptions{})
		l.Offer(added("early", "e", 1))
		l.Pause()
		start(t, d)
		equal(t, "paused", l.Paused(), true)
		for version := 2; version < 5; version++ {
			l.Offer(updated("web", "w", version))
			other.Offer(updated("web", "w", version))
			synctest.Wait()
		}
		equal(t, "events", h.ids(), []string{"other/w/updated/2", "other/w/updated/3", "other/w/updated/4"})
		l.Resume()
		synctest.Wait()
		equal(t, "paused", l.Paused(), false)
		equal(t, "events", h.ids()[3:], []string{"r/e/added/1", "r/w/updated/4"})
	})
}

// Suspects of a paused lane wait with it, and let those of other lanes through.
func TestPausedSuspects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrashing("poison")
		d := New(Recipient{Handler: h, Concurrency: 4}, NewLetterBox(LetterBoxOptions{}), Options{})
		paused, goes := d.Lane("paused", pods, LaneOptions{}), d.Lane("goes", pods, LaneOptions{})
		start(t, d)
		goes.Offer(added("poison", "p", 1))
		paused.Offer(added("a", "a", 1))
		paused.Offer(added("b", "b", 1))
		goes.Offer(added("c", "c", 1))
		// the crash, and the longest delay after it: one is in flight, three are held
		pass(1600 * time.Millisecond)
		paused.Pause()
		before := len(h.ids())
		pass(time.Minute)
		for _, id := range h.ids()[before:] {
			if id[:2] == "pa" {
				t.Errorf("%s came while its lane was paused", id)
			}
		}
		equal(t, "held", len(d.suspects.held) > 0, true)
		equal(t, "waiting of the other", goes.Stats().Waiting+goes.Stats().InFlight, 0)
		paused.Resume()
		pass(time.Minute)
		equal(t, "waiting", paused.Stats().Waiting+paused.Stats().InFlight, 0)
		equal(t, "held", len(d.suspects.held), 0)
	})
}

// If the clock was years ahead when a retry was recorded, the retry does not wait for years.
func TestRetryDueInYears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		m := added("web", "u", 1)
		s.written[1<<62] = &filed{m.Delta.Key(), record{Value: delivery.Delivery{Delta: m.Delta}, Sent: true, Due: time.Now().AddDate(30, 0, 0)}}
		var h recorder
		d, _ := recorded(s, &h, NewLetterBox(LetterBoxOptions{}), LaneOptions{})
		start(t, d)
		pass(30 * time.Hour)
		equal(t, "events", h.ids(), []string{"r/u/added/1"})
	})
}

// The payload of a merged change may not have been remade when the process was killed. If the rule
// is different by now, it cannot be remade either.
func TestRestoredStalePayload(t *testing.T) {
	for _, remerge := range []func(delta.Delta) ([]byte, error){nil, func(delta.Delta) ([]byte, error) { return []byte(`"new"`), nil }} {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf(t)
			m := added("web", "u", 1)
			s.written[1<<62] = &filed{m.Delta.Key(), record{Value: delivery.Delivery{Delta: m.Delta, Payload: []byte(`"old"`), Stale: true}}}
			var h recorder
			var o LaneOptions
			want := `"old"`
			if remerge != nil {
				want = `"new"`
				o = preparer{remerge: func(d delta.Delta) (json.RawMessage, error) { return remerge(d) }}.lane(o)
			}
			d, _ := recorded(s, &h, NewLetterBox(LetterBoxOptions{}), o)
			start(t, d)
			synctest.Wait()
			equal(t, "payload", string(h.events[0].Payload), want)
		})
	}
}
