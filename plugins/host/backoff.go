package host

import (
	"math/rand/v2"
	"time"
)

// Backoff says how long a Host pauses before it tries a handler again.
type Backoff struct {
	Min        time.Duration // after a first failure, then doubled; default 200 ms
	Max        time.Duration // default 30 s
	Decay      time.Duration // a run of this length makes up for one failure; default 1 min
	RefusedMin time.Duration // after a refused config, doubled likewise; default 1 min
	RefusedMax time.Duration // default 10 min
}

func (b Backoff) withDefaults() Backoff {
	setDefault(&b.Min, 200*time.Millisecond)
	setDefault(&b.Max, 30*time.Second)
	setDefault(&b.Decay, time.Minute)
	setDefault(&b.RefusedMin, time.Minute)
	setDefault(&b.RefusedMax, 10*time.Minute)
	return b
}

// ofFailures returns a count of failures that have not happened yet.
func (b Backoff) ofFailures() backoff { return newBackoff(b.Min, b.Max, b.Decay) }

// ofRefusals returns a count of refused configs. It never decays.
func (b Backoff) ofRefusals() backoff { return backoff{min: b.RefusedMin, max: b.RefusedMax} }

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
