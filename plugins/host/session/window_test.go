package session

import (
	"testing"

	"github.com/informd/informd/plugins/handlerpb"
)

func TestLastAttempt(t *testing.T) {
	batches := Description{Capabilities: []string{handlerpb.CapabilityBatches}}
	for _, c := range []struct {
		described      Description
		attempts, want int
	}{
		{batches, 5, 5}, {batches, 2, 2}, {batches, 1, 0}, {batches, 0, 0}, {Description{}, 5, 0},
	} {
		if got := c.described.last(c.attempts); got != c.want {
			t.Errorf("%+v with %d attempts: %d, want %d", c.described, c.attempts, got, c.want)
		}
	}
}

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
