package fleet

import (
	"sync"
	"testing"
)

// No two objects are sent at the same time, however coarse the time of day is, and even if it goes
// back.
func TestSentTimesAreUnique(t *testing.T) {
	var c clock
	for i, now := range []int64{7, 7, 3, 8, 20} {
		if got, want := c.next(now), []int64{7, 8, 9, 10, 20}[i]; got != want {
			t.Errorf("at %d: %d, want %d", now, got, want)
		}
	}
	const senders, each = 8, 1000
	var taken sync.Map
	var sending sync.WaitGroup
	for range senders {
		sending.Go(func() {
			for range each {
				if next := c.next(100); !isNew(&taken, next) {
					t.Errorf("%d twice", next)
				}
			}
		})
	}
	sending.Wait()
}

func isNew(taken *sync.Map, time int64) bool {
	_, loaded := taken.LoadOrStore(time, nil)
	return !loaded
}
