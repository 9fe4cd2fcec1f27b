package source

import (
	"context"
	"errors"
	"testing"

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
