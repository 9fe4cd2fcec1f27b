package state

import (
	"context"
	"testing"
)

// The generation is part of what replicas agree on: the next leader knows it.
func TestGeneration(t *testing.T) {
	g := newGroup(t, 1)
	lead := func(m *member, want uint64, put ...uint64) {
		t.Helper()
		g.apply(m, len(g.agreed))
		s, err := m.Lead(func(entry []byte) error { return g.propose(m, entry) })
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Generation(); err != nil || got != want {
			t.Errorf("got %d, %v, want %d", got, err, want)
		}
		s.recorded(func() {
			for _, generation := range put {
				s.PutGeneration(generation)
			}
			s.PutNote(Note{Rule: "r", Name: "n", Value: []byte("v")})
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	lead(g.members[0], 1)
	lead(g.members[1], 1, 2, 3)
	lead(g.members[2], 3)
	g.restart(g.members[1], false)
	lead(g.members[1], 3, 300)
	lead(g.members[0], 300)
}
