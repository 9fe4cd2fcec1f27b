package source

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A watch that ends remembers no event that it could not forward. Watches come and go as long as
// the informer lives.
func TestWatchThatEndsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, room := range []int{0, 1} { // the event waits for the gate, or for the reflector
		i, _ := idle(t)
		i.gate.bound = uint64(room)
		w := &watching{
			wire:   &wire{informer: i},
			events: make(chan watch.Event),
		}
		unreadable := &entry{Object: state(t, "a", "1", 1), arrival: &arrival{unfit: errors.New("its own fault")}}
		if w.change(ctx, watch.Event{Type: watch.Modified, Object: unreadable}) {
			t.Fatal("change reports that it sent an event that nobody received")
		}
		if n := i.gate.depth(); n > 0 {
			t.Errorf("with room for %d, the gate still counts %d events", room, n)
		}
	}
}

// resumed begins a resumed watch whose server has answered at a time. send sends it the next event,
// and returns when the consumer has it. It is called in a bubble of synctest.
func resumed(t *testing.T, at time.Time) (i *Informer, send func()) {
	i, _ = idle(t)
	ctx, cancel := context.WithCancel(t.Context())
	body, server := io.Pipe()
	answers := make(chan answer, 1)
	answers <- answer{at: at}
	w := newWatching(&wire{informer: i, current: "100"}, metav1.ListOptions{}, cancel)
	w.answered = answers
	ended := make(chan struct{})
	go func() { defer close(ended); w.forward(ctx, newStream(body, i.reader), func() {}) }()
	t.Cleanup(func() { _ = server.Close(); <-ended; cancel() })
	version := 0
	return i, func() {
		version++
		_, _ = io.WriteString(server, event("MODIFIED", podAt("a", version, version)))
		<-w.events
		i.gate.leave(uint64(version), i.reached)
	}
}

// While informd itself pauses before it reads, a server is not silent: a resumed watch has not
// caught up between two reads of a busy connection.
func TestPauseOfABusyConnectionIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, send := resumed(t, time.Now())
		for v := range 5 {
			time.Sleep(gatherPause + gatherLate + time.Millisecond) // a timer may be that late
			send()
			if i.HasSynced() {
				t.Fatalf("it has caught up before event %d", v+1)
			}
		}
		time.Sleep(i.parent.tuning.still.partHush)
		synctest.Wait()
		if !i.HasSynced() {
			t.Error("it does not catch up with a silent server")
		}
	})
}

// However long ago the server has answered, it must be silent from now on: what it sent while the
// consumer took the list still has to be read.
func TestEventsThatWaitAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, send := resumed(t, time.Now().Add(-time.Hour))
		hush := i.parent.tuning.still.hush
		time.Sleep(hush - time.Millisecond)
		send()
		time.Sleep(hush - time.Millisecond)
		synctest.Wait()
		if i.HasSynced() {
			t.Error("it has caught up sooner than the server was silent")
		}
		time.Sleep(hush)
		synctest.Wait()
		if !i.HasSynced() {
			t.Error("it does not catch up with a silent server")
		}
	})
}

// Once its stream is over, an attendant does not act: the reflector may have the next watch.
func TestAttendantEndsWithTheStream(t *testing.T) {
	t.Parallel()
	for _, isOver := range []bool{true, false} {
		i, _ := idle(t)
		w := newWatching(&wire{informer: i, current: "100"}, metav1.ListOptions{}, func() {})
		inner := newStream(http.NoBody, i.reader)
		inner.body.made = time.Now().Add(-time.Hour)
		inner.body.since.Store(1)
		ctx, cancel := context.WithCancel(t.Context())
		if isOver {
			cancel()
		}
		for look := 1; look <= looks; look++ {
			if w.isSilent(ctx, inner, time.Minute, look) == isOver {
				t.Errorf("over %v: look %d finds the server silent: %v", isOver, look, !isOver)
			}
		}
		cancel()
		if caughtUp := w.wire.current == "" && i.HasSynced(); caughtUp == isOver {
			t.Errorf("over %v: the watch has caught up: %v", isOver, caughtUp)
		}
	}
}

// The position that a new list begins with is the store's, which stays the saved one until client-go
// has handed over the saved list. The consumer's may be ahead of it by then.
func TestWideningWaitsForTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _ := idle(t)
		ctx, cancel := context.WithCancel(t.Context())
		past, handed := make(chan struct{}), make(chan struct{})
		close(past)
		var why error
		wire := &wire{
			informer: i, told: past, handed: handed, widened: past, end: func(err error) { why = err },
		}
		w := newWatching(wire, metav1.ListOptions{}, cancel)
		w.checkSteady()
		ended := make(chan struct{})
		go func() { defer close(ended); w.attend(ctx, newStream(http.NoBody, i.reader)) }()
		time.Sleep(time.Hour)
		if why != nil {
			t.Errorf("it ends before client-go has handed over the list: %v", why)
		}
		close(handed)
		<-ended
		if !errors.Is(why, errRelist) {
			t.Errorf("it does not list again: %v", why)
		}
	})
}
