package list

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A List does what a slice does, seen from both ends.
func TestList(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var l List[int]
	var want []*Element[int]
	for n := range 10_000 {
		e := &Element[int]{Value: n}
		switch at := random.IntN(len(want) + 1); random.IntN(6) {
		case 0:
			l.PushFront(e)
			want = slices.Insert(want, 0, e)
		case 1:
			l.PushBack(e)
			want = append(want, e)
		case 2:
			if at == len(want) {
				l.InsertBefore(e, nil)
			} else {
				l.InsertBefore(e, want[at])
			}
			want = slices.Insert(want, at, e)
		default:
			if at < len(want) {
				l.Remove(want[at])
				want = slices.Delete(want, at, at+1)
			}
		}
		var forwards, backwards []*Element[int]
		for e := l.Front(); e != nil; e = e.Next() {
			forwards = append(forwards, e)
		}
		for e := l.Back(); e != nil; e = e.Prev() {
			backwards = append(backwards, e)
		}
		slices.Reverse(backwards)
		if !slices.Equal(forwards, want) || !slices.Equal(backwards, want) {
			t.Fatalf("after %d steps: %d forwards and %d backwards, want %d",
				n, len(forwards), len(backwards), len(want))
		}
	}
}
