package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// An event has one id at all of its attempts, also if its rule is renamed between them or at the
// moment when it is offered.
func TestOneIDWhileTheRuleIsRenamed(t *testing.T) {
	var mu sync.Mutex
	ids := make(map[string]string)
	attempts := make(map[string]int)
	ended := 0
	to := &recorder{answer: func(_ context.Context, ev handler.Event) error {
		mu.Lock()
		defer mu.Unlock()
		_, what, _ := strings.Cut(ev.ID, "/")
		if id, ok := ids[what]; ok && id != ev.ID {
			t.Errorf("%s, then %s", id, ev.ID)
		}
		ids[what] = ev.ID
		if attempts[what]++; attempts[what] < 3 {
			return errors.New("again")
		}
		ended++
		return nil
	}}
	d := New(Recipient{
		Name: "h", Handler: to, Concurrency: 16,
		Retry: Retry{Backoff: time.Millisecond, MaxBackoff: time.Millisecond},
	}, NewLetterBox(LetterBoxOptions{}), Options{})
	start(t, d)
	first := d.Lane("r-0", pods, LaneOptions{Every: true})
	const n = 3000
	var offering sync.WaitGroup
	var isOver atomic.Bool
	offering.Go(func() {
		defer isOver.Store(true)
		for i := range n {
			first.Offer(added(fmt.Sprint("p", i), fmt.Sprint("u", i), i+1))
			if i%10 == 0 {
				time.Sleep(time.Microsecond)
			}
		}
	})
	last := first
	for i := 1; !isOver.Load(); i++ {
		last = d.Succeed(last, fmt.Sprint("r-", i), LaneOptions{Every: true}, false)
		time.Sleep(100 * time.Microsecond)
	}
	offering.Wait()
	defer last.Close()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		mu.Lock()
		isDone := ended == n
		mu.Unlock()
		if isDone {
			return
		}
	}
	t.Error("not all was delivered")
}
