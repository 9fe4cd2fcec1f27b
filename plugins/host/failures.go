package host

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"
)

// failures counts what has gone wrong, for the pause before the next try: min after the first, doubled for each further
// one, up to max. Time without one makes good for them, one for each decay, so that a handler that crashes once a day is
// back at once each time, and one that crashes every few seconds is not.
type failures struct {
	min, max time.Duration
	decay    time.Duration

	n     int       // no more than it takes to come to max
	since time.Time // all has been well since, as far as it has not been counted in n; zero: it is not
}

func newFailures(least, most, decay time.Duration) failures {
	return failures{min: least, max: most, decay: decay}
}

// next counts one more and returns the pause, up to a fifth shorter or longer: handlers that fail together do not come
// back together.
func (f *failures) next() time.Duration {
	if f.pause() < f.max {
		f.n++
	}
	return time.Duration(float64(f.pause()) * (0.8 + 0.4*rand.Float64()))
}

// pause is that of the present count.
func (f *failures) pause() time.Duration {
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
func (f *failures) well(now time.Time) { f.since = now }

// ended ends it.
func (f *failures) ended(now time.Time) { f.n, f.since = f.count(now), time.Time{} }

// count is how many failures are not made good for.
func (f *failures) count(now time.Time) int {
	if f.since.IsZero() {
		return f.n
	}
	return max(0, f.n-int(now.Sub(f.since)/f.decay))
}

// complaints logs failures: a new one at once, the same one again only after a while, which doubles from a minute to an
// hour. Whatever is left out is in the status, and counted.
type complaints struct {
	log   *slog.Logger
	last  string
	again time.Time
	pause time.Duration
	quiet int // since the last line
}

func (c *complaints) about(state State, err error, pause time.Duration, now time.Time) {
	text := err.Error()
	if e, ok := errors.AsType[*exitError](err); ok {
		text = e.ending.Error() // its last words may hold the time
	}
	if text == c.last && now.Before(c.again) {
		c.quiet++
		return
	}
	if text != c.last {
		c.pause = 0
	}
	c.pause = min(max(2*c.pause, time.Minute), time.Hour)
	c.last, c.again = text, now.Add(c.pause)
	attrs := []any{"error", err.Error(), "next", pause.Round(time.Millisecond), "unreported", c.quiet}
	if lines := lastLog(err); len(lines) > 1 { // a single one is in the error
		attrs = append(attrs, "log", strings.Join(lines, " | "))
	}
	message := "handler failed"
	if state == Refused {
		message = "handler refused"
	}
	c.log.Error(message, attrs...)
	c.quiet = 0
}

func (c *complaints) forget() { *c = complaints{log: c.log} }

// processError is why a process failed, and what it wrote last.
type processError struct {
	error
	log []string
}

func (e *processError) Unwrap() error { return e.error }

// lastLog are the last lines on standard error of the process that err is about.
func lastLog(err error) []string {
	if e, ok := errors.AsType[*processError](err); ok {
		return e.log
	}
	return nil
}
