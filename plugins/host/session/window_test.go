package session

import (
	"testing"

	"github.com/informd/informd/plugins/handlerpb"
)

func TestWindow(t *testing.T) {
	batches := []string{"else", handlerpb.CapabilityBatches}
	for _, c := range []struct {
		why       string
		described Description
		operator  int
		want, all int // events, and those with slow ones
	}{
		{"nobody says", Description{}, 0, 8, 8 + 128},
		{"it takes batches", Description{Capabilities: batches}, 0, 64, 64 + 1024},
		{"the operator says", Description{Capabilities: batches}, 8, 8, 8 + 128},
		{"one means one", Description{Capabilities: batches}, 1, 1, 1},
		{"it bears less", Description{Capabilities: batches, Concurrency: 16}, 0, 16, 16},
		{"it bears more", Description{Concurrency: 100}, 0, 8, 100},
	} {
		w := c.described.Window(c.operator)
		if w.Events != c.want || w.MaxEvents != c.all {
			t.Errorf("%s: got %d and %d in all, want %d and %d", c.why, w.Events, w.MaxEvents, c.want, c.all)
		}
	}
}
