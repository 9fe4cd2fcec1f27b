package source

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// What a watch that ends did not hand on is not remembered: watches come and go as long as the informer lives.
func TestWatchThatEndsLeavesNothingBehind(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, room := range []int{0, 1} { // it waits to enter the gate, or for the reflector
		w := &watching{
			wire:   &wire{gate: newGate(room, time.Hour), bare: new(bare), skip: func(runtime.Object, error) {}},
			events: make(chan watch.Event),
		}
		unreadable := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "a", "uid": 3}, // an identity of the wrong type
		}}
		if w.change(ctx, watch.Event{Type: watch.Modified, Object: unreadable}) {
			t.Fatal("handed on to nobody")
		}
		if n := len(w.wire.bare.set) + w.wire.gate.depth(); n > 0 {
			t.Errorf("with room for %d, %d objects are remembered", room, n)
		}
	}
}
