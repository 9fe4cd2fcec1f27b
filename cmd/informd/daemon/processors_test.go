package daemon

import "testing"

func TestProcessors(t *testing.T) {
	for _, c := range []struct {
		why                   string
		isSet                 bool
		chosen, machine, want int
	}{
		{"a small machine", false, 2, 2, 4},
		{"a large machine", false, 16, 16, 16},
		{"the operator has set it", true, 2, 2, 2},
		{"a container with a limit", false, 2, 16, 2},
		{"two processors and a limit of half a one, which Go takes for two", false, 2, 2, 4},
	} {
		if got := processors(c.isSet, c.chosen, c.machine); got != c.want {
			t.Errorf("%s: got %d, want %d", c.why, got, c.want)
		}
	}
}
