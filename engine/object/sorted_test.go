package object

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSorted compares a Sorted, and every Bucket that it gave, with what a slice says.
func TestSorted(t *testing.T) {
	const steps = 40_000
	for _, c := range []struct {
		why  string
		keys int
		grow int // of 10 steps, how many add
	}{
		{"few objects", 3, 5},
		{"it fills", 5000, 9},
		{"it empties", 3000, 3},
		{"it stays", 1000, 5},
	} {
		t.Run(c.why, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			var s Sorted
			known := make(map[string]*Object)
			type lent struct {
				bucket Bucket
				want   []*Object
			}
			var buckets []lent
			expected := func() []*Object {
				var all []*Object
				for _, o := range known {
					all = append(all, o)
				}
				slices.SortFunc(all, Compare)
				return all
			}
			for step := range steps {
				key := random.IntN(c.keys)
				o := FromIdentity(fmt.Sprint("n", key%3), fmt.Sprint("o", key), "", fmt.Sprint(step))
				switch {
				case random.IntN(10) < c.grow || step < c.keys/2:
					s.Put(o)
					known[o.Key()] = o
				default:
					s.Remove(o)
					delete(known, o.Key())
				}
				if s.Has(o) != (known[o.Key()] == o) {
					t.Fatal("Has is wrong")
				}
				if s.Len() != len(known) {
					t.Fatalf("%d objects, want %d", s.Len(), len(known))
				}
				if step%(steps/20) == 0 {
					buckets = append(buckets, lent{s.Bucket(), expected()})
				}
			}
			buckets = append(buckets, lent{s.Bucket(), expected()})
			for i, b := range buckets {
				if got := b.bucket.Collect(); !slices.Equal(got, b.want) || b.bucket.Len() != len(b.want) {
					t.Errorf("bucket %d has %d objects that differ from the %d that were there", i, len(got), len(b.want))
				}
				if got := slices.Concat(b.bucket.Parts()...); !slices.Equal(got, b.want) {
					t.Errorf("the parts of bucket %d differ", i)
				}
			}
			for _, o := range known {
				s.Remove(o)
			}
			if len(s.leaves) > 0 || s.n != 0 {
				t.Errorf("%d leaves of an empty set", len(s.leaves))
			}
		})
	}
}

// TestSortedShrinks removes most of a set at random. Its leaves must not stay for a few objects
// each.
func TestSortedShrinks(t *testing.T) {
	var s Sorted
	const n = 50_000
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		s.Put(FromIdentity("", fmt.Sprint("o", i), "", ""))
	}
	for i := range n {
		if i%100 > 0 {
			s.Remove(FromIdentity("", fmt.Sprint("o", i), "", ""))
		}
	}
	if s.Len() != n/100 || len(s.leaves) > 12 {
		t.Errorf("%d objects in %d leaves", s.Len(), len(s.leaves))
	}
}

func TestJoin(t *testing.T) {
	of := func(space string, names ...string) Bucket {
		var s Sorted
		for _, name := range names {
			s.Put(FromIdentity(space, name, "", ""))
		}
		return s.Bucket()
	}
	for _, c := range []struct {
		why     string
		buckets []Bucket
		want    string
	}{
		{"none", nil, "[]"},
		{"empty ones", []Bucket{{}, of("a")}, "[]"},
		{"one", []Bucket{{}, of("a", "y", "x")}, "[a/x a/y]"},
		{"in another order", []Bucket{of("b", "x", "y"), BucketOfOne(FromIdentity("a", "z", "", "")), of("c", "x")}, "[a/z b/x b/y c/x]"},
		{"a-b is behind a", []Bucket{of("a-b", "x"), of("a", "y")}, "[a/y a-b/x]"},
	} {
		keys := []string{}
		joined := Join(c.buckets)
		for o := range joined.All() {
			keys = append(keys, o.Key())
		}
		if fmt.Sprint(keys) != c.want || joined.Len() != len(keys) {
			t.Errorf("%s: %v (%d), want %s", c.why, keys, joined.Len(), c.want)
		}
	}
}
