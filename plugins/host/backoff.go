package host

import (
	"math/rand/v2"
	"time"
)

// backoff counts failures for the pause before the next try: min after the first one, doubled for
// each further one, up to max. For each decay without a failure it forgets one. So a handler that
// crashes once a day is back at once each time, and one that crashes every few seconds is not.
type backoff struct {
	min, max time.Duration
	decay    time.Duration

	n     int       // failures so far, capped where the pause reaches max
	since time.Time // of the last failure-free time that n does not reflect yet; zero: none
}

func newBackoff(least, most, decay time.Duration) backoff {
	return backoff{min: least, max: most, decay: decay}
}

// next counts one more failure and returns the pause. It is up to a fifth shorter or longer, so
// that handlers that fail together do not come back together.
func (f *backoff) next() time.Duration {
	if f.pause() < f.max {
		f.n++
	}
	return time.Duration(float64(f.pause()) * (0.8 + 0.4*rand.Float64()))
}

// pause returns the pause for the present count.
func (f *backoff) pause() time.Duration {
	if f.n == 0 {
		return 0
	}
	pause := f.min
	for i := 1; i < f.n && pause < f.max; i++ {
		pause *= 2
	}
	return min(pause, f.max)
}

// well begins a time without failures.
func (f *backoff) well(now time.Time) { f.since = now }

// ended ends that time.
func (f *backoff) ended(now time.Time) { f.n, f.since = f.count(now), time.Time{} }

// count returns how many failures still count.
func (f *backoff) count(now time.Time) int {
	if f.since.IsZero() {
		return f.n
	}
	return max(0, f.n-int(now.Sub(f.since)/f.decay))
}
