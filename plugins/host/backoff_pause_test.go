package host

import (
	"testing"
	"time"
)

// The pause doubles with each failure, up to a bound. Time without a failure forgets them one by
// one.
func TestFailures(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := newBackoff(100*time.Millisecond, time.Second, time.Minute)
	within := func(got, want time.Duration) bool { return got >= want*8/10 && got <= want*12/10 }
	for i, want := range []time.Duration{100, 200, 400, 800, 1000, 1000, 1000} {
		if got := f.next(); !within(got, want*time.Millisecond) {
			t.Errorf("pause %d is %v, want about %v", i+1, got, want*time.Millisecond)
		}
	}
	least, most := time.Hour, time.Duration(0)
	for range 200 { // of which a quarter lies beyond either mark
		got := f.next()
		least, most = min(least, got), max(most, got)
	}
	if !within(least, time.Second) || !within(most, time.Second) || least > 900*time.Millisecond || most < 1100*time.Millisecond {
		t.Errorf("the longest pause is from %v to %v, want 800ms to 1.2s", least, most)
	}
	for _, c := range []struct {
		runs time.Duration // without a failure
		want int           // failures that count after it
		why  string
	}{
		{0, 5, "the count goes no further than the longest pause needs"},
		{59 * time.Second, 5, "not a whole minute"},
		{2*time.Minute + 59*time.Second, 3, "two whole ones"},
		{time.Minute, 2, "what was left over of the last time does not count"},
		{time.Hour, 0, "it does not go below zero"},
	} {
		f.well(start)
		if got := f.count(start.Add(c.runs)); got != c.want {
			t.Errorf("after %v: %d while it runs, want %d: %s", c.runs, got, c.want, c.why)
		}
		f.ended(start.Add(c.runs))
		if got := f.count(start.Add(24 * time.Hour)); got != c.want {
			t.Errorf("after %v: %d once it has ended, want %d", c.runs, got, c.want)
		}
	}
	if got := f.next(); !within(got, 100*time.Millisecond) {
		t.Errorf("the first pause again is %v", got)
	}
}
