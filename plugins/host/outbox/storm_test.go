package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

// Whatever consumers do, and whoever gives up, each event has one outcome, no consumer exceeds its
// window, and no event waits while there is room.
func TestOutboxStorm(t *testing.T) {
	for _, slow := range []int{0, 3} {
		t.Run(fmt.Sprint(slow, " slow ones"), func(t *testing.T) { storm(t, slow) })
	}
}

// storm runs consumers with room for some slow events each, and callers.
func storm(t *testing.T, slow int) {
	const window = 3
	p := New(time.Hour)
	var members, callers sync.WaitGroup
	ending := make(chan struct{})
	for n := range 4 {
		members.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			d := p.NewConsumer()
			for {
				d.Attach(joinedWindow(window, slow))
				for random.IntN(60) > 0 {
					var seqs []uint64
					for b := d.Take(time.Now()); b != nil; b = d.Take(time.Now()) {
						for _, c := range b.Events {
							seqs = append(seqs, c.Seq)
						}
					}
					if _, n, _ := d.Stats(); n > window+slow {
						t.Errorf("%d are with it at once", n)
					}
					if slow > 0 && random.IntN(6) == 0 && len(seqs) > 1 { // the first is slow
						time.Sleep(time.Millisecond)
						first := seqs[0]
						d.Complete([]Outcome{{Seq: seqs[len(seqs)-1]}})
						seqs = append(seqs[1:len(seqs)-1], first)
						d.Slow()
					}
					switch random.IntN(6) {
					case 0:
						d.Doubt(true)
					case 1:
						d.Expire(time.Now().Add(2 * time.Hour)) // all of them
					case 2:
						d.Doubt(false)
					}
					var answers []Outcome
					for _, seq := range seqs {
						answers = append(answers, Outcome{Seq: seq})
					}
					d.Complete(answers)
					select {
					case <-d.Wake():
					case <-time.After(100 * time.Microsecond):
					}
				}
				switch random.IntN(3) {
				case 0:
					d.Hold()
					d.Detach(Lost(errGone))
				case 1:
					d.Take(time.Now())
					d.Fail(Lost(errors.New("gone")))
				case 2:
					d.Detach(Lost(errGone))
				}
				select {
				case <-ending:
					return
				case <-time.After(time.Duration(random.IntN(200)) * time.Microsecond):
				}
			}
		})
	}
	var outcomes atomic.Int64
	const each, several = 1500, 12
	for n := range several {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 2))
			for i := range each {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ev := &handler.Event{Rule: "r", Name: fmt.Sprint(n, random.IntN(3)), Attempt: 1 + i%3, Object: make([]byte, random.IntN(400))}
				if slow > 0 && random.IntN(10) == 0 {
					p.mu.Lock()
					p.rememberSlow((&call{event: ev}).object())
					p.mu.Unlock()
				}
				answered := make(chan struct{}, 1)
				p.Submit(ctx, ev, func(handler.Answer, error) { // a second call would block
					outcomes.Add(1)
					answered <- struct{}{}
				})
				if random.IntN(4) == 0 {
					cancel()
				}
				select {
				case <-answered:
				case <-time.After(30 * time.Second):
					t.Errorf("event %d of %d waits for ever; %d wait, room for %d", i, n, p.Waiting(), roomOf(p))
					return
				}
			}
		})
	}
	callers.Wait()
	close(ending)
	members.Wait()
	if got := outcomes.Load(); got != each*several || p.Waiting() != 0 || roomOf(p) != 0 {
		t.Errorf("%d outcomes, want %d; %d wait, room for %d", got, each*several, p.Waiting(), roomOf(p))
	}
}

// joinedWindow has room for two events of 400 bytes and several small ones.
func joinedWindow(events, slow int) Window {
	return Window{Events: events, Bytes: 1000, MaxEvents: events + slow, MaxBytes: int64(1000 + 400*slow)}
}
