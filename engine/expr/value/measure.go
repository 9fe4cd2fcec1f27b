package value

import (
	"math"
	"time"
)

// maxMeasured is what the value of a metric may be, so that the sum of many is finite.
const maxMeasured = 1e300

// Number returns a value as that of a metric: true as 1 and false as 0, a time as Unix time, a
// duration in seconds. It must not be nil.
func Number(v any) (float64, error) {
	f, ok := 0.0, true
	switch v := v.(type) {
	case bool:
		if v {
			f = 1
		}
	case time.Time:
		f = float64(v.Unix()) + float64(v.Nanosecond())/1e9
	case time.Duration:
		f = v.Seconds()
	case *quantity:
		f = v.q.AsApproximateFloat64()
	case string:
		return 0, Errorf("the expression gives a string, not a number: " +
			"write float(…), quantity(…) or time(…) around it")
	default:
		f, ok = toFloat(v)
	}
	switch {
	case !ok:
		return 0, Errorf("the expression gives %s, not a number", Some(v))
	case math.IsNaN(f) || math.Abs(f) > maxMeasured:
		return 0, Errorf("the expression gives a number beyond 1e300")
	}
	return f, nil
}
