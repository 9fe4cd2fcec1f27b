package dispatch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/plugins/handler"
)

// handTime is a clock that a test moves, with one timer.
type handTime struct {
	now   time.Time
	due   time.Time // zero if the timer is not set
	after func()
}

func (c *handTime) Now() time.Time                  { return c.now }
func (c *handTime) Since(t time.Time) time.Duration { return c.now.Sub(t) }

func (c *handTime) AfterFunc(d time.Duration, f func()) queue.Timer {
	c.due, c.after = c.now.Add(d), f
	return c
}

func (c *handTime) Stop() bool { c.due = time.Time{}; return true }

func (c *handTime) Reset(d time.Duration) bool { c.due = c.now.Add(d); return true }

// ring moves the clock to when the timer is due, and calls its function.
func (c *handTime) ring() {
	c.now, c.due = c.due, time.Time{}
	c.after()
}

// Whatever Step does is done when it returns, and delays are exact.
func TestStep(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	clock := &handTime{now: began}
	failures := 2
	h := recorder{answer: func(context.Context, handler.Event) error {
		if failures--; failures >= 0 {
			return errors.New("not yet")
		}
		return nil
	}}
	d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{Clock: clock, AfterFunc: clock.AfterFunc, IsStepped: true})
	l := d.Lane("r", pods, LaneOptions{})
	steps := func() (n int) {
		for {
			due, ok := d.Step(t.Context())
			if !ok {
				equal(t, "due", due, time.Time{})
				return n
			}
			n++
		}
	}
	l.Offer(added("a", "a", 1))
	l.Offer(added("b", "b", 1))
	equal(t, "attempts", steps(), 2)
	equal(t, "events", h.ids(), []string{"r/a/added/1", "r/b/added/1"})
	clock.ring()
	equal(t, "time", clock.now.Sub(began), time.Second)
	equal(t, "attempts", steps(), 2)
	equal(t, "then", h.ids()[2:], []string{"r/a/added/1 #2", "r/b/added/1 #2"})
	equal(t, "waiting", l.Stats().Waiting, 0)
}
