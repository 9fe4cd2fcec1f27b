package source

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/engine/delta"
)

func TestGateAccountsForAllThatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(3, time.Minute)
		for want := uint64(1); want <= 3; want++ {
			if number, err := g.enter(t.Context()); err != nil || number != want {
				t.Fatalf("number %d, %v; want %d", number, err, want)
			}
		}
		entered := make(chan uint64)
		go func() {
			number, _ := g.enter(t.Context())
			entered <- number
		}()
		synctest.Wait()
		select {
		case <-entered:
			t.Fatal("a fourth has entered")
		default:
		}
		g.begin()
		g.end(0) // what never entered: it came by a list
		if g.depth() != 3 {
			t.Errorf("depth %d", g.depth())
		}
		g.begin()
		g.end(2) // and the first, whatever became of it
		if number := <-entered; number != 4 || g.depth() != 2 {
			t.Errorf("number %d, depth %d", number, g.depth())
		}
		g.begin()
		g.end(1) // late: it was accounted for
		g.withdraw(4)
		g.withdraw(4)
		if g.depth() != 1 {
			t.Errorf("depth %d", g.depth())
		}
	})
}

func TestGateIsLeftWithItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, time.Hour)
		_, _ = g.enter(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := g.enter(ctx)
			left <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; err == nil || g.depth() != 1 {
			t.Errorf("left with %v, depth %d", err, g.depth())
		}
	})
}

// Should client-go lose what was counted, a source does not stand still for ever. A listener that takes its time is
// something else.
func TestGateDoesNotBelieveItselfForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 10*time.Second)
		slow, _ := g.enter(t.Context())
		g.begin()
		began := time.Now()
		entered := make(chan error)
		go func() {
			_, err := g.enter(t.Context())
			entered <- err
		}()
		time.Sleep(time.Minute)
		g.end(slow)
		if err := <-entered; err != nil || time.Since(began) != time.Minute {
			t.Fatalf("it entered after %v, %v", time.Since(began), err)
		}
		began = time.Now() // what has entered is lost
		if _, err := g.enter(t.Context()); err != nil || time.Since(began) != 10*time.Second {
			t.Fatalf("it entered after %v, %v", time.Since(began), err)
		}
		if g.depth() != 1 {
			t.Errorf("depth %d", g.depth())
		}
	})
}

// A listener that does not keep up stops the reading from the wire, and loses nothing.
func TestSlowConsumer(t *testing.T) {
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, _, _ := serving(t, watchList)
		s.tuning.unreviewed = 10
		var (
			heard = make(chan delta.Delta)
			want  []string
		)
		i.Consume(consumer(func(d delta.Delta, _ any) { heard <- d }))
		run(t, s)
		awaitState(t, i, Synced)
		server.AwaitWatches(pods, 1)
		server.Load(pods, 300, func(n int) any {
			name := fmt.Sprintf("o%03d", n)
			want = append(want, "added "+name+" 1")
			return body(name, 1)
		})
		await(t, "a full gate", func() bool { return i.Stats().Pending == 10 })
		for n := range want {
			d := <-heard
			if got := words([]delta.Delta{d})[0]; got != want[n] {
				t.Fatalf("heard %q, want %q", got, want[n])
			}
			if n == 150 { // the watch ends while it is held up: what was not taken comes with the next one
				server.DropWatches()
			}
			if pending := i.Stats().Pending; pending > 10 {
				t.Fatalf("%d are pending", pending)
			}
		}
		await(t, "an empty gate", func() bool { return i.Stats().Pending == 0 })
		if lists := i.Stats().Lists; lists != 1 {
			t.Errorf("listed %d times", lists)
		}
	})
}

// The objects of a list are exempt, however many they are.
func TestListsDoNotPassTheGate(t *testing.T) {
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, e, _ := serving(t, watchList)
		s.tuning.unreviewed = 1
		server.Load(pods, 1200, nil) // more than a page
		run(t, s)
		awaitState(t, i, Synced)
		if heard, _ := e.all(); len(heard) != 1200 || i.Stats().Objects != 1200 {
			t.Errorf("heard of %d of 1200", len(heard))
		}
	})
}

// A watch stopped while its listener is stuck ends with the listener's call, and not later.
func TestStuckConsumerAndShutdown(t *testing.T) {
	server, s, i, _, _ := serving(t, true)
	s.tuning.unreviewed = 2
	stuck, in := make(chan struct{}), make(chan struct{}, 1)
	i.Consume(consumer(func(delta.Delta, any) {
		select {
		case in <- struct{}{}:
		default:
		}
		<-stuck
	}))
	stop := run(t, s)
	awaitState(t, i, Synced)
	server.AwaitWatches(pods, 1)
	server.Load(pods, 50, nil)
	<-in
	await(t, "a full gate", func() bool { return i.Stats().Pending == 2 })
	go close(stuck)
	stop()
}
