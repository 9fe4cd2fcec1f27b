package heap

import (
	stdheap "container/heap"
	"math/rand/v2"
	"slices"
	"testing"
)

type item struct{ key, turn, place int }

type byKey struct{}

func (byKey) Less(a, b *item) bool {
	return a.key < b.key || a.key == b.key && a.turn < b.turn
}
func (byKey) Place(of *item) *int { return &of.place }

func compare(a, b *item) int {
	switch {
	case (byKey{}).Less(a, b):
		return -1
	case (byKey{}).Less(b, a):
		return 1
	}
	return 0
}

// A Heap does what a sorted slice does, and each element knows its place.
func TestHeap(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var h Heap[*item, byKey]
	var want []*item
	for turn := range 20_000 {
		switch at := random.IntN(len(want) + 1); random.IntN(8) {
		case 0, 1, 2, 3:
			x := &item{key: random.IntN(50), turn: turn, place: Out}
			h.Push(x)
			want = append(want, x)
		case 4:
			if len(want) > 0 {
				if got := h.Pop(); got != want[0] || got.place != Out {
					t.Fatalf("popped %v, want %v", got, want[0])
				}
				want = want[1:]
			}
		case 5:
			if at < len(want) {
				h.Remove(want[at])
				if want[at].place != Out {
					t.Fatal("a removed element has a place")
				}
				want = slices.Delete(want, at, at+1)
			}
		case 6:
			if at < len(want) {
				want[at].key = random.IntN(50)
				h.Fix(want[at])
			}
		default:
			if random.IntN(10) > 0 {
				continue
			}
			var out, rest []*item
			for _, x := range want {
				if x.key%7 == 0 {
					out = append(out, x)
				} else {
					rest = append(rest, x)
				}
			}
			if got := h.Extract(func(x *item) bool { return x.key%7 == 0 }); !slices.Equal(got, out) {
				t.Fatalf("extracted %d elements, want %d", len(got), len(out))
			}
			want = rest
		}
		slices.SortFunc(want, compare)
		if h.Len() != len(want) || len(want) > 0 && h.First() != want[0] {
			t.Fatalf("after %d steps the heap has %d elements, want %d", turn, h.Len(), len(want))
		}
		for at, x := range h.All() {
			if x.place != at || at > 0 && (byKey{}).Less(x, h.All()[(at-1)/2]) {
				t.Fatalf("after %d steps %v is at %d", turn, x, at)
			}
		}
	}
}

func TestHeapShrinks(t *testing.T) {
	t.Parallel()
	var h Heap[*item, byKey]
	for n := range 10 * minShrink {
		h.Push(&item{key: n})
	}
	for h.Len() > 3 {
		h.Pop()
	}
	if h.Cap() > 2*minShrink {
		t.Errorf("3 elements hold the memory of %d", h.Cap())
	}
}

// std is the same heap of container/heap.
type std []*item

func (s std) Len() int           { return len(s) }
func (s std) Less(i, j int) bool { return byKey{}.Less(s[i], s[j]) }
func (s std) Swap(i, j int)      { s[i], s[j] = s[j], s[i]; s[i].place, s[j].place = i, j }
func (s *std) Push(x any)        { x.(*item).place = len(*s); *s = append(*s, x.(*item)) }
func (s *std) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return x
}

// One operation is a Pop and a Push among 10,000 elements.
func BenchmarkHeap(b *testing.B) {
	items := make([]*item, 10_000)
	for n := range items {
		items[n] = &item{key: rand.IntN(1 << 30), turn: n}
	}
	b.Run("this", func(b *testing.B) {
		var h Heap[*item, byKey]
		for _, x := range items {
			h.Push(x)
		}
		b.ReportAllocs()
		for b.Loop() {
			x := h.Pop()
			x.key += rand.IntN(1 << 30)
			h.Push(x)
		}
	})
	b.Run("container", func(b *testing.B) {
		var h std
		for _, x := range items {
			stdheap.Push(&h, x)
		}
		b.ReportAllocs()
		for b.Loop() {
			x := stdheap.Pop(&h).(*item)
			x.key += rand.IntN(1 << 30)
			stdheap.Push(&h, x)
		}
	})
}
