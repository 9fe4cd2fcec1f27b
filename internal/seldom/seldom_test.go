package seldom

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

func TestAllow(t *testing.T) {
	start := time.Unix(1_790_000_000, 0)
	m := Messages{Max: 2}
	for i, c := range []struct {
		at      time.Duration
		message string
		held    int
		ok      bool
		reason  string
	}{
		{0, "a", 0, true, "it is new"},
		{1, "a", 0, false, "it was let through a moment ago"},
		{2, "b", 1, true, "it is another, and one was held back before it"},
		{3, "c", 0, false, "there is no room for a third within a minute"},
		{Interval - 1, "a", 0, false, "the minute is not over"},
		{Interval, "a", 0, false, "the minute is over, but the place is for c, which found none"},
		{Interval + 1, "c", 3, true, "it has the place"},
		{Interval + 2, "a", 0, true, "b is forgotten after its minute"},
		{Interval + 3, "b", 0, false, "a and c have the places"},
		{0, "a", 0, false, "a clock that goes back lets nothing through twice"},
	} {
		if held, ok := m.Allow(start.Add(c.at), c.message); held != c.held || ok != c.ok {
			t.Errorf("step %d: got %d, %v; want %d, %v: %s", i, held, ok, c.held, c.ok, c.reason)
		}
	}
}

// Whatever is logged, memory is bounded, and each minute lets Max messages through.
func TestBounds(t *testing.T) {
	var m Messages
	start, through := time.Unix(1_790_000_000, 0), 0
	for i := range 10_000 {
		if _, ok := m.Allow(start.Add(time.Duration(i)*Interval/5000), fmt.Sprint(i)); ok {
			through++
		}
		if len(m.last) > DefaultMax {
			t.Fatalf("%d are remembered", len(m.last))
		}
	}
	if through != 2*DefaultMax {
		t.Errorf("%d of 10000 were let through in two minutes, want %d", through, 2*DefaultMax)
	}
}

func TestConcurrentUse(t *testing.T) {
	var m Messages
	var group sync.WaitGroup
	var mu sync.Mutex
	through, now := 0, time.Unix(1_790_000_000, 0)
	for range 8 {
		group.Go(func() {
			for range 100 {
				if _, ok := m.Allow(now, "a"); ok {
					mu.Lock()
					through++
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	if through != 1 {
		t.Errorf("let through %d times", through)
	}
}

func TestKind(t *testing.T) {
	for _, c := range []struct{ message, kind string }{
		{"", ""},
		{"no such team", "no such team"},
		{"dial tcp 10.0.0.1:443: connect: connection refused", "dial tcp # connect: connection refused"},
		{"read tcp 10.1.2.3:51234->10.0.0.1:443: reset", "read tcp #># reset"},
		{"pod web-7d4b9 has 3 restarts, 4×", "pod # has # restarts, #×"},
		{"\xff2", "\xff#"},
	} {
		if kind := Kind(c.message); kind != c.kind {
			t.Errorf("the kind of %q is %q, want %q", c.message, kind, c.kind)
		}
	}
}

// Five kinds come all the time, and there is room for four: each is seen every other minute.
func TestNoneIsKeptOutForEver(t *testing.T) {
	m, start := Messages{Max: 4}, time.Unix(1_790_000_000, 0)
	seen := map[string]int{}
	const minutes = 20
	for second := range minutes * 60 {
		for _, kind := range []string{"a", "b", "c", "d", "e"} {
			if _, ok := m.Allow(start.Add(time.Duration(second)*time.Second), kind); ok {
				seen[kind]++
			}
		}
	}
	for _, kind := range []string{"a", "b", "c", "d", "e"} {
		if seen[kind] < minutes/2 {
			t.Errorf("%s was let through %d times in %d minutes", kind, seen[kind], minutes)
		}
	}
}

func TestTimes(t *testing.T) {
	m, start, through := Messages{Times: 3}, time.Unix(1_790_000_000, 0), 0
	for second := range 120 {
		if _, ok := m.Allow(start.Add(time.Duration(second)*time.Second), "a"); ok {
			through++
		}
	}
	if through != 6 {
		t.Errorf("let through %d times in two minutes, want 6", through)
	}
}
