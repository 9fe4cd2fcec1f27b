package dispatch

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// turns give the lanes back in the order in which they were added.
func TestTurns(t *testing.T) {
	var lanes turns
	var want []*Lane
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		if random.IntN(100) < 51 {
			l := new(Lane)
			lanes.add(l)
			want = append(want, l)
		} else if len(want) > 0 {
			if got := lanes.next(); got != want[0] {
				t.Fatal("another lane has its turn")
			}
			want = want[1:]
		}
		if lanes.isEmpty() != (len(want) == 0) {
			t.Fatalf("%d lanes wait, and isEmpty returns %v", len(want), lanes.isEmpty())
		}
		if !slices.Equal(lanes.lanes[lanes.taken:], want) || slices.ContainsFunc(lanes.lanes[:lanes.taken], func(l *Lane) bool { return l != nil }) {
			t.Fatal("turns hold other lanes than those that wait")
		}
	}
}
