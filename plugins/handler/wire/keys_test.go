package wire

import (
	"math"
	"slices"
	"testing"
)

func TestKeys(t *testing.T) {
	sorted := []string{"node-1", "z", "a/c", "a/d", "a-b/c"}
	if !slices.IsSortedFunc(sorted, CompareKeys) {
		t.Errorf("%q is not sorted", sorted)
	}
	for _, key := range sorted {
		if again := Key(SplitKey(key)); again != key {
			t.Errorf("%q became %q", key, again)
		}
	}
	for _, c := range []struct {
		after string
		limit uint32
		want  []string
	}{
		{"", 0, sorted},
		{"", 2, sorted[:2]},
		{"", math.MaxUint32, sorted},
		{"a/c", 0, sorted[3:]},
		{"a/c", 1, sorted[3:4]},
		{"a/aa", 1, sorted[2:3]}, // it is gone by now
		{"a-b/c", 1, nil},
		{"z/z", 0, nil},
	} {
		first, n := Part(len(sorted), func(i int) string { return sorted[i] }, c.after, c.limit)
		if got := sorted[first : first+n]; !slices.Equal(got, c.want) {
			t.Errorf("after %q, at most %d: %q, want %q", c.after, c.limit, got, c.want)
		}
	}
}
