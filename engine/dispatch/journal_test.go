package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/plugins/handler"
)

// whileOpen fails the test if something is logged while a change is being recorded.
type whileOpen struct {
	*shelf
	messages chan string // 64 of them
}

func (w whileOpen) Enabled(context.Context, slog.Level) bool { return true }
func (w whileOpen) WithAttrs([]slog.Attr) slog.Handler       { return w }
func (w whileOpen) WithGroup(string) slog.Handler            { return w }

func (w whileOpen) Handle(_ context.Context, r slog.Record) error {
	if w.isRecording() {
		w.t.Errorf("%q is logged while a change is being recorded", r.Message)
	}
	w.messages <- r.Message
	return nil
}

// Whatever goes wrong, the dispatcher does not use the log, which may block, nor the Preparer while
// it records a change.
func TestNothingIsLoggedWithinAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		w := whileOpen{s, make(chan string, 64)}
		h := recorder{answer: func(_ context.Context, ev handler.Event) error {
			if ev.Attempt == 1 {
				return errors.New("down")
			}
			return handler.ErrReject
		}}
		prepares := preparer{attach: nil, secret: func() bool {
			if s.isRecording() {
				t.Error("the Preparer is asked while a change is being recorded")
			}
			return false
		}}
		d := New(Recipient{Handler: &h, Concurrency: 1, Retry: Retry{Backoff: time.Millisecond}}, NewLetterBox(LetterBoxOptions{MaxLetters: 1}),
			Options{Journal: s, Logger: slog.New(w)})
		s.noRoom = true
		l := d.Lane("r", pods, prepares.lane(LaneOptions{Store: s, Every: true, MaxItems: 2}))
		l.Pause()
		start(t, d)
		for v := range 5 {
			s.offer(l, updated("web", "u", v+1))
			s.offer(l, updated("db", "d", v+1))
		}
		l.Resume()
		pass(time.Minute)
		close(w.messages)
		got := map[string]int{}
		for m := range w.messages {
			got[m]++
		}
		equal(t, "messages", got, map[string]int{
			"delivery failed and will be repeated":                                  1,
			"event became a dead letter":                                            2,
			"dead letter dropped: there are too many":                               1,
			"too many changes wait for the handler: the queue merges or drops some": 1,
		})
	})
}

// brittle is a shelf that panics when the first answer is recorded.
type brittle struct {
	*shelf
	broken atomic.Bool
}

func (b *brittle) Put(n uint64, key delta.Key, r record) (cut uint64) {
	if r.Value.Answer != nil && !b.broken.Swap(true) {
		panic("out of range")
	}
	return b.shelf.Put(n, key, r)
}

// A panic while a change is being recorded ends that change. The dispatcher contains the panic, and
// a change that stays open would stop every other change, and the writer, for good.
func TestAPanicEndsTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &brittle{shelf: newShelf(t)}
		var h recorder
		var deeds deeds
		d := New(Recipient{Handler: patching(&h), Retry: Retry{Backoff: time.Second}}, NewLetterBox(LetterBoxOptions{}),
			Options{Journal: s, Actor: &actor{do: deeds.do}})
		l := d.Lane("r", pods, LaneOptions{Store: s})
		start(t, d)
		s.offer(l, added("web", "u", 1))
		synctest.Wait()
		s.mu.Lock()
		open := s.open
		s.mu.Unlock()
		equal(t, "changes that are still being recorded", open, 0)
		pass(time.Minute)
		equal(t, "actions", len(deeds.list()), 1)
	})
}
