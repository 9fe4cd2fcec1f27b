package source

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/engine/delta"
)

func TestGateWaitsForEarlierFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(3)
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
		g.leave(0, nil) // an object of a list, which never entered
		if g.depth() != 3 {
			t.Errorf("depth %d", g.depth())
		}
		g.leave(2, nil) // the first event leaves too
		if number := <-entered; number != 4 || g.depth() != 2 {
			t.Errorf("number %d, depth %d", number, g.depth())
		}
		g.leave(1, nil) // late: it has left already
		g.withdraw(4)
		g.withdraw(4)
		if g.depth() != 1 {
			t.Errorf("depth %d", g.depth())
		}
	})
}

func TestGateIsLeftWithItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
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

// A mark is reached when all earlier events have left, and before any later event leaves.
func TestMarksAreReachedInOrder(t *testing.T) {
	g := newGate(10)
	if m, isReached := g.mark("1", true); !isReached || m.position != "1" || !m.caughtUp {
		t.Errorf("with nothing in flight: %+v, %v", m, isReached)
	}
	first, _ := g.enter(t.Context())
	for _, position := range []string{"2", "3"} { // the second mark replaces the first
		if _, isReached := g.mark(position, position == "2"); isReached {
			t.Errorf("%s is reached before what entered before it has left", position)
		}
	}
	second, _ := g.enter(t.Context())
	g.mark("4", false)
	var got []string
	reach := func(m mark) {
		got = append(got, fmt.Sprint(m.position, " ", m.caughtUp, " ", g.depth()))
		if m.position == "4" { // a mark set meanwhile comes next
			g.mark("5", false)
		}
	}
	g.leave(first, reach)
	g.leave(second, reach)
	if diff := cmp.Diff([]string{"3 true 2", "4 false 1", "5 false 1"}, got); diff != "" {
		t.Errorf("position, caught up, in flight: -want +got\n%s", diff)
	}
	if err := g.drain(t.Context()); err != nil || g.depth() != 0 {
		t.Error(err, g.depth())
	}
}

// drain waits until all events have left, or until its context ends.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(3)
		number, _ := g.enter(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		drained := make(chan error)
		for _, c := range []context.Context{ctx, t.Context()} {
			go func() { drained <- g.drain(c) }()
			synctest.Wait()
			if c == ctx {
				cancel()
			} else {
				g.leave(number, nil)
			}
			if err := <-drained; (err != nil) != (c == ctx) {
				t.Error(err)
			}
		}
		_, _ = g.enter(t.Context())
		g.reset()
		if err := g.drain(t.Context()); err != nil || g.depth() != 0 {
			t.Error(err, g.depth())
		}
	})
}

// With a slow consumer, the informer stops reading from the wire and loses nothing.
func TestSlowConsumer(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, _, _ := serving(t, watchList)
		i.gate.bound = 10
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
			if n == 150 { // the watch ends while it waits: the next watch brings the rest
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

// Objects of a list do not count, however many they are.
func TestListsDoNotPassTheGate(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, watchList bool) {
		server, s, i, e, _ := serving(t, watchList)
		i.gate.bound = 1
		server.Load(pods, 1200, nil) // more than a page
		run(t, s)
		awaitState(t, i, Synced)
		if heard, _ := e.all(); len(heard) != 1200 || i.Stats().Objects != 1200 {
			t.Errorf("heard of %d of 1200", len(heard))
		}
	})
}

// If a watch is stopped while the consumer is stuck, it ends with the consumer's call, not later.
func TestStuckConsumerAndShutdown(t *testing.T) {
	server, s, i, _, _ := serving(t, true)
	i.gate.bound = 2
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
