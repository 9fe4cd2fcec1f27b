package measure

import "math"

// total is a sum of numbers that come and go. It keeps what rounding takes away (Neumaier), so that
// nothing is left of a number that has gone.
type total struct{ sum, lost float64 }

func (t *total) add(f float64) {
	sum := t.sum + f
	if math.Abs(t.sum) >= math.Abs(f) {
		t.lost += t.sum - sum + f
	} else {
		t.lost += f - sum + t.sum
	}
	t.sum = sum
}

func (t *total) value() float64 { return t.sum + t.lost }
