package procfs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	tail := " 5 5 34816 -1 4194560 1 0 0 0 150 25 30 2 20 0 3 0 987 1000 7 18446744073709551615 1\n"
	want := Process{
		PID: 42, State: 'S', Parent: 6, Terminal: 34816, CPU: 1750 * time.Millisecond,
		ChildrenCPU: 320 * time.Millisecond, Threads: 3, Born: 987, Resident: 7 * os.Getpagesize(),
	}
	for _, c := range []struct {
		why, text string
		isValid   bool
	}{
		{"a process", "42 (sh) S 6" + tail, true},
		{"a name that looks like more", "42 (a) R 1 1 1 (b) S 6" + tail, true},
		{"a name with an end of line", "42 (a\n) S 6" + tail, true},
		{"an empty name", "42 () S 6" + tail, true},
		{"nothing", "", false},
		{"only a number", "42", false},
		{"only a name", "42 (sh)", false},
		{"too short", "42 (sh) S 6 5", false},
		{"no number", "(sh) S 6" + tail, false},
		{"no parent", "42 (sh) S x" + tail, false},
		{"no time", "42 (sh) S 6" + strings.Replace(tail, "150", "x", 1), false},
		{"no end of the name", "42 sh S 6" + tail, false},
	} {
		p, err := parse([]byte(c.text))
		if (err == nil) != c.isValid || c.isValid && p != want {
			t.Errorf("%s: got %+v, %v", c.why, p, err)
		}
	}
}

func TestHasEnded(t *testing.T) {
	for want, processes := range map[bool][]Process{
		true:  {{State: 'Z', Threads: 1}, {State: 'X'}, {State: 'x'}},
		false: {{State: 'S', Threads: 1}, {State: 'T', Threads: 1}, {State: 'Z', Threads: 2}, {}},
	} {
		for _, p := range processes {
			if p.HasEnded() != want {
				t.Errorf("%+v: %v", p, !want)
			}
		}
	}
}

func TestBelow(t *testing.T) {
	all := []Process{
		{PID: 1}, {PID: 2, Parent: 1}, {PID: 5, Parent: 3}, {PID: 3, Parent: 2}, {PID: 4, Parent: 2},
		{PID: 6, Parent: 1}, {PID: 2, Parent: 5}, // its number was reused during the read
	}
	var pids []int
	for _, p := range below(2, all) {
		pids = append(pids, p.PID)
	}
	if !slices.Equal(pids, []int{3, 4, 5, 2}) {
		t.Errorf("got %v", pids)
	}
	if got := below(7, all); len(got) > 0 {
		t.Errorf("below none: %v", got)
	}
}

func BenchmarkParse(b *testing.B) {
	text := fmt.Appendf(nil, "42 (sh) S 6%s 0 0 0 0 0 0", strings.Repeat(" 1234", 30))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
