package preview

import "testing"

// A rule that no longer prunes, and one that is gone, say what becomes of what they applied.
func TestWhatStays(t *testing.T) {
	t.Parallel()
	for text, v := range map[string]Rule{
		"changes: " + Released:                                 {Change: Changed, Releases: true},
		"is gone: 2 deliveries that wait are dropped; " + Left: {Change: Gone, Dropped: 2, Leaves: true},
	} {
		if got := v.String(); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}
