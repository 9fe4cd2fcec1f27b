package dispatch

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/plugins/handler"
)

// One operation is a change of one of 10,000 objects on its way from Offer to Done, with a handler
// that does nothing.
func BenchmarkDelivery(b *testing.B) {
	b.Run("handler", func(b *testing.B) {
		benchmarkDelivery(b, handler.Func(func(context.Context, handler.Event) (handler.Answer, error) { return handler.Answer{}, nil }), nil)
	})
	b.Run("submitter", func(b *testing.B) { benchmarkDelivery(b, atOnce{}, nil) })
	b.Run("submitter, recorded", func(b *testing.B) { benchmarkDelivery(b, atOnce{}, &idleStore{}) })
}

// idleStore is a lane's store and a Journal. It does nothing but lock.
type idleStore struct{ sync.RWMutex }

func (s *idleStore) Begin()                             { s.RLock() }
func (s *idleStore) End()                               { s.RUnlock() }
func (*idleStore) Written(context.Context) error        { return nil }
func (*idleStore) Await(context.Context, uint64) error  { return nil }
func (*idleStore) Put(uint64, delta.Key, record) uint64 { return 0 }
func (*idleStore) Delete(uint64, delta.Key)             {}
func (*idleStore) Room(int64) bool                      { return false }
func (*idleStore) Load(delta.Key, uint64, int, int64) ([]queue.Numbered[delivery.Delivery], error) {
	return nil, nil
}

// atOnce is a Submitter that answers at once.
type atOnce struct{ handler.Handler }

func (atOnce) Submit(_ context.Context, _ *handler.Event, answered func(handler.Answer, error)) {
	answered(handler.Answer{}, nil)
}

func benchmarkDelivery(b *testing.B, h handler.Handler, store *idleStore) {
	const objects = 10_000
	matches := make([]rule.Match, objects)
	for i := range matches {
		matches[i] = updated(fmt.Sprint("web", i), fmt.Sprint("u", i), 2)
	}
	var ended sync.WaitGroup
	o, lane := Options{Attempted: func(Attempt) { ended.Done() }}, LaneOptions{Every: true}
	if store != nil {
		o.Journal, lane.Store = store, store
	}
	d := New(Recipient{Handler: h}, NewLetterBox(LetterBoxOptions{}), o)
	l := d.Lane("r", pods, lane)
	ctx, cancel := context.WithCancel(b.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = d.Run(ctx)
	}()
	b.ReportAllocs()
	before := cpuTime(b)
	for i := 0; b.Loop(); i++ {
		if i%objects == 0 {
			ended.Wait()
		}
		ended.Add(1)
		l.Offer(matches[i%objects])
	}
	ended.Wait()
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
	cancel()
	<-stopped
}

// cpuTime returns the CPU time that the process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// One operation is an answer that a real store records and writes, and that an Actor performs by
// doing nothing.
func BenchmarkAnswer(b *testing.B) {
	for _, concurrency := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("concurrency ", concurrency), func(b *testing.B) {
			s, err := state.Open(b.TempDir(), state.Options{})
			if err != nil {
				b.Fatal(err)
			}
			var ended sync.WaitGroup
			h := handler.Func(func(_ context.Context, ev handler.Event) (handler.Answer, error) {
				return handler.Answer{Actions: patch(ev)}, nil
			})
			d := New(Recipient{Handler: h, Concurrency: concurrency}, NewLetterBox(LetterBoxOptions{}), Options{
				Journal: s, Actor: &actor{}, Attempted: func(Attempt) { ended.Done() },
			})
			l := d.Lane("r", pods, LaneOptions{Store: s.Lane("r", state.LaneOptions{}), Acts: true})
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = d.Run(ctx) })
			running.Go(func() { _ = s.Run(ctx) })
			for i := 0; b.Loop(); i++ {
				if i%1000 == 0 {
					ended.Wait()
				}
				ended.Add(1)
				m := updated(fmt.Sprint("web", i%1000), fmt.Sprint("u", i%1000), i+2)
				s.Begin()
				l.Offer(m)
				s.End()
			}
			ended.Wait()
			cancel()
			running.Wait()
		})
	}
}
