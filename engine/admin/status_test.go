package admin

import "testing"

// A source with several informers shows the one that is behind.
func TestIsBehind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want bool
	}{
		{"9", "10", true},
		{"10", "9", false},
		{"9", "9", false},
		{"", "9", true},
		{"9", "", false},
		{"9", "x", false}, // on a server with other versions this is not known
	}
	for _, test := range tests {
		if got := isBehind(test.a, test.b); got != test.want {
			t.Errorf("isBehind(%q, %q) = %v", test.a, test.b, got)
		}
	}
}
