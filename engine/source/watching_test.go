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

// While informd itself pauses before it reads, a server is not silent: a resumed watch has not
// caught up between two reads of a busy connection.
func TestPauseOfABusyConnectionIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _ := idle(t)
		ctx, cancel := context.WithCancel(t.Context())
		body, server := io.Pipe()
		defer server.Close()
		answers := make(chan answer, 1)
		w := newWatching(&wire{informer: i, current: "100"}, metav1.ListOptions{}, cancel)
		w.answered = answers
		answers <- answer{at: time.Now()}
		go w.forward(ctx, newStream(body, &entryReader{i}), func() {})
		for v := range 5 {
			time.Sleep(gatherPause + gatherLate + time.Millisecond) // a timer may be that late
			_, _ = io.WriteString(server, event("MODIFIED", podAt("a", v, v+1)))
			<-w.events
			i.gate.leave(uint64(v+1), i.reached)
			if i.HasSynced() {
				t.Fatalf("it has caught up before event %d", v+1)
			}
		}
		time.Sleep(w.wire.tuning().maxHush)
		synctest.Wait()
		if !i.HasSynced() {
			t.Error("it does not catch up with a silent server")
		}
	})
}

// What came while the consumer took the list is no silence, however long ago the server has answered:
// it still has to be read.
func TestEventsThatWaitAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _ := idle(t)
		ctx, cancel := context.WithCancel(t.Context())
		body, server := io.Pipe()
		defer server.Close()
		answers := make(chan answer, 1)
		w := newWatching(&wire{informer: i, current: "100"}, metav1.ListOptions{}, cancel)
		w.answered = answers
		answers <- answer{at: time.Now().Add(-time.Hour)}
		go w.forward(ctx, newStream(body, &entryReader{i}), func() {})
		time.Sleep(time.Millisecond) // the attendant has the answer
		_, _ = io.WriteString(server, event("MODIFIED", podAt("a", 0, 1)))
		<-w.events
		i.gate.leave(1, i.reached)
		if i.HasSynced() {
			t.Error("it has caught up before the event")
		}
		time.Sleep(w.wire.tuning().maxHush)
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
		inner := newStream(http.NoBody, &entryReader{i})
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
