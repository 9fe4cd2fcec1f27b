package nearest

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	candidates := []string{"labelSelector", "fieldSelector", "resync", "keep", "log", "pods"}
	for name, want := range map[string]string{
		"labelselector": "labelSelector", // case
		"labelSelektor": "labelSelector", // one wrong
		"resnyc":        "resync",        // two swapped
		"pod":           "pods",          // one missing
		"logg":          "log",           // one too many
		"selector":      "",              // too far from both
		"kp":            "",
		"x":             "", // anything is close to a single letter
		"":              "",
	} {
		if got := Name(name, candidates); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// TestDistance checks the laws of a distance, and that the limit only ever cuts it off.
func TestDistance(t *testing.T) {
	words := []string{"", "a", "ab", "ba", "abc", "acb", "handler", "hnadler", "handlers", "source"}
	for _, a := range words {
		for _, b := range words {
			d := distance(a, b, 100)
			if (d == 0) != (a == b) || d != distance(b, a, 100) || d > max(len(a), len(b)) {
				t.Errorf("%q to %q: %d", a, b, d)
			}
			if got := distance(a, b, 2); got != min(d, 2) {
				t.Errorf("%q to %q: %d, at most 2: %d", a, b, d, got)
			}
		}
	}
	if d := distance(strings.Repeat("a", 1<<20), "b", 3); d != 3 {
		t.Errorf("got %d", d)
	}
}

// What is far too long costs nothing, however many there are to compare it with.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	if got := Name(long, []string{long}); got != "" {
		t.Errorf("%d bytes are like others", len(got))
	}
	names := make([]string, maxCandidates)
	for i := range names {
		names[i] = strings.Repeat("y", i)
	}
	if allocs := testing.AllocsPerRun(10, func() { Name(long, names) }); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
