package source

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
)

// What a watch that ends did not hand on is not remembered: watches come and go as long as the informer lives.
func TestWatchThatEndsLeavesNothingBehind(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, room := range []int{0, 1} { // it waits to enter the gate, or for the reflector
		i, _ := idle(t)
		i.gate.bound = uint64(room)
		w := &watching{
			wire:   &wire{informer: i},
			events: make(chan watch.Event),
		}
		unreadable := &entry{Object: state(t, "a", "1", 1), arrival: &arrival{unfit: errors.New("its own fault")}}
		if w.change(ctx, watch.Event{Type: watch.Modified, Object: unreadable}) {
			t.Fatal("handed on to nobody")
		}
		if n := i.gate.depth(); n > 0 {
			t.Errorf("with room for %d, %d objects are remembered", room, n)
		}
	}
}
