package slack

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

// Each reading is an interval after the one before. A release takes effect at once.
func TestDue(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		why      string
		readings []reading
		due      []int // the readings at which memory is released
	}{
		{"nothing happens", []reading{{mib, 50 * mib, 90 * mib}, {2 * mib, 50 * mib, 90 * mib}}, nil},
		{"a list, and then calm: once", []reading{
			{300 * mib, 50 * mib, 120 * mib}, {301 * mib, 50 * mib, 120 * mib}, {302 * mib, 50 * mib, 80 * mib},
		}, []int{1}},
		{"a storm that goes on", []reading{
			{300 * mib, 50 * mib, 200 * mib}, {600 * mib, 90 * mib, 200 * mib}, {900 * mib, 90 * mib, 200 * mib},
		}, nil},
		{"it abates, and then is over", []reading{
			{300 * mib, 50 * mib, 200 * mib}, {600 * mib, 90 * mib, 200 * mib}, {620 * mib, 90 * mib, 200 * mib}, {630 * mib, 90 * mib, 200 * mib}, {640 * mib, 40 * mib, 90 * mib},
		}, []int{3}},
		{"a trickle, which is calm", []reading{
			{5 * mib, 40 * mib, 90 * mib}, {10 * mib, 40 * mib, 90 * mib}, {15 * mib, 40 * mib, 90 * mib}, {20 * mib, 40 * mib, 90 * mib},
		}, nil},
		{"bursts: as often as it has allocated half of what lives", []reading{
			{300 * mib, 400 * mib, 800 * mib}, {301 * mib, 400 * mib, 800 * mib}, {501 * mib, 400 * mib, 800 * mib}, {502 * mib, 400 * mib, 800 * mib},
			{710 * mib, 400 * mib, 800 * mib}, {711 * mib, 400 * mib, 800 * mib}, {712 * mib, 400 * mib, 800 * mib},
		}, []int{1, 3, 5}},
		{"bursts beside a large heap", []reading{
			{300 * mib, 1400 * mib, 1200 * mib}, {301 * mib, 1400 * mib, 1200 * mib}, {601 * mib, 1400 * mib, 1200 * mib}, {602 * mib, 1400 * mib, 1200 * mib},
			{902 * mib, 1400 * mib, 1200 * mib}, {903 * mib, 1400 * mib, 1200 * mib},
		}, []int{5}},
	} {
		var w watch
		var due []int
		for i, now := range c.readings {
			if w.isDue(now) {
				due = append(due, i)
				w.release(now)
			}
		}
		if !slices.Equal(due, c.due) {
			t.Errorf("%s: released at %v, want %v", c.why, due, c.due)
		}
	}
}

// The reader knows what is resident, and that a release lowers it.
func TestReader(t *testing.T) {
	read := newReader()
	before := read()
	garbage := make([]byte, 64<<20)
	for i := range garbage {
		garbage[i] = 1
	}
	full := read()
	runtime.KeepAlive(garbage)
	debug.FreeOSMemory()
	after := read()
	if full.allocated-before.allocated < 64<<20 || full.resident < before.resident+32<<20 || after.resident > full.resident-32<<20 {
		t.Errorf("before %+v, full %+v, after %+v", before, full, after)
	}
}
