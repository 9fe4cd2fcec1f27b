package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// No handler receives an event before its record is written, also after a change has been merged
// into an event that waits.
func TestWrittenBeforeDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		var h recorder
		release := make(chan struct{})
		var asked atomic.Int64
		s.awaits = func(_ context.Context, cut uint64) error {
			if cut == 0 {
				t.Error("an event without a record")
			}
			asked.Add(1)
			<-release
			return nil
		}
		d := New(Recipient{Handler: &h}, NewLetterBox(LetterBoxOptions{}), Options{Journal: s})
		l := d.Lane("r", pods, LaneOptions{Store: s})
		start(t, d)
		s.offer(l, added("web", "u", 1))
		synctest.Wait()
		if n := len(h.ids()); n > 0 || asked.Load() != 1 {
			t.Errorf("%d events before the record was written, after %d calls of Await", n, asked.Load())
		}
		s.offer(l, added("db", "v", 1))
		s.offer(l, updated("db", "v", 2))
		release <- struct{}{}
		synctest.Wait()
		if n := len(h.ids()); n != 1 {
			t.Errorf("%d events", n)
		}
		close(release)
		synctest.Wait()
		if n := len(h.ids()); n != 2 || asked.Load() != 2 {
			t.Errorf("%d events, after %d calls of Await", n, asked.Load())
		}
	})
}
