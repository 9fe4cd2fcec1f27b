package dispatch

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/plugins/handler"
)

// Retry says when, and how often, a failed delivery is repeated.
type Retry struct {
	// Attempts is how many errors a handler may return for one event before the event becomes a
	// dead letter. 0 means no bound.
	Attempts int
	// Backoff is the first delay (0: 1 second). It doubles with each further failure of the object,
	// up to MaxBackoff (0: 5 minutes). A random part of up to a fifth is taken off. A delay that
	// the handler asks for replaces it: at least Backoff, at most 24 hours, and lengthened by up to
	// a fifth.
	Backoff    time.Duration
	MaxBackoff time.Duration

	exact bool // delays have no random part
}

const (
	maxAsked   = 24 * time.Hour
	maxDelay   = maxAsked + maxAsked/5
	maxLosses  = 3
	staleRetry = 50 * time.Millisecond // after the first ErrStale; it doubles, up to MaxBackoff
	// maxLostFor bounds the delay after a loss, which is Backoff, and twice that after a second
	// one. It can be short, because the dispatcher waits for the handler to be ready anyway.
	maxLostFor = time.Second
	// maxHungFor bounds that delay for an event that the handler had for long.
	maxHungFor = 10 * time.Second
)

// verdict says what becomes of a delivery after an attempt.
type verdict struct {
	result Result
	reason string        // why it is repeated or dead
	plain  bool          // reason is informd's own words, which quote nothing
	short  string        // the part of reason that is plain, if not all of it is
	after  time.Duration // delay until it is repeated
	yields bool          // a newer change of the object does not wait for that
}

func (r Retry) withDefaults() Retry {
	if r.Backoff <= 0 {
		r.Backoff = time.Second
	}
	if r.MaxBackoff <= 0 {
		r.MaxBackoff = 5 * time.Minute
	}
	r.MaxBackoff = max(r.MaxBackoff, r.Backoff)
	return r
}

// plainError is an error in informd's own words. It quotes neither objects nor handlers.
type plainError struct{ err error }

func (p *plainError) Error() string { return p.err.Error() }
func (p *plainError) Unwrap() error { return p.err }

// Plain marks an error of an Actor as informd's own words: it is shown and recorded even if the
// handler sees Secrets.
func Plain(err error) error { return &plainError{err} }

// laterError is an error that says when the delivery is tried again.
type laterError struct {
	err   error
	after time.Duration
}

func (l *laterError) Error() string { return l.err.Error() }
func (l *laterError) Unwrap() error { return l.err }

// Later marks an error of Actor.Perform that has its own time for the next attempt: after says how
// long to wait. The delivery's backoff then starts over, and a newer change of the object is
// delivered at once. It still waits under LaneOptions.Every and in groups. Later means nothing for
// an error that wraps handler.ErrReject or ErrStale.
func Later(after time.Duration, err error) error { return &laterError{err, after} }

// isPlainText reports whether the text of an answer's error is informd's own.
func isPlainText(answer error) bool {
	_, ok := errors.AsType[*plainError](answer)
	return ok || errors.Is(answer, handler.ErrNoAnswer)
}

// judge adds an answer to d's counts, and decides what becomes of d.
func (r Retry) judge(d delivery.Delivery, answer error) (delivery.Delivery, verdict) {
	d, v := r.decide(d, answer)
	v.plain = v.plain || isPlainText(answer)
	return d, v
}

func (r Retry) decide(d delivery.Delivery, answer error) (delivery.Delivery, verdict) {
	switch {
	case answer == nil:
		return d, verdict{result: Done}
	case errors.Is(answer, handler.ErrReject):
		return d, verdict{result: Rejected, reason: answer.Error()}
	case errors.Is(answer, handler.ErrLost):
		if d.Losses++; d.Losses >= maxLosses {
			why := "the handler crashed three times with this event in flight"
			v := verdict{result: Dead, reason: why, short: why}
			last, said := strings.CutPrefix(answer.Error(), handler.ErrLost.Error()+": ")
			if v.plain = !said; said {
				v.reason += "; the last time: " + last
			}
			return d, v
		}
		// Those that were lost once go before those that were lost twice: see suspects.
		after := time.Duration(d.Losses) * r.shortened(min(r.Backoff, maxLostFor))
		return d, verdict{result: Lost, reason: answer.Error(), after: after}
	}
	if !errors.Is(answer, handler.ErrNoAnswer) {
		d.Losses = 0 // the handler survived to answer
	}
	if errors.Is(answer, ErrStale) { // which is nobody's failure
		after := r.shortened(min(staleRetry<<min(d.Backoff, 16), r.MaxBackoff))
		v := verdict{result: Retried, reason: answer.Error(), after: after}
		if !d.Answer.IsAcknowledged() {
			d.Answer = nil
		}
		d.Refusals++
		d.Backoff++
		return d, v
	}
	d.Refusals = 0 // they are no longer in a row
	d.Failures++
	if r.Attempts > 0 && d.Failures >= r.Attempts {
		return d, verdict{result: Dead, reason: answer.Error()}
	}
	v := verdict{result: Retried, reason: answer.Error()}
	if later, ok := errors.AsType[*laterError](answer); ok {
		v.after, v.yields = min(max(later.after, 0), maxDelay), true
		d.Backoff = 0
		return d, v
	}
	if asked, ok := handler.RetryDelay(answer); ok {
		asked = min(max(asked, r.Backoff), maxAsked)
		v.after = asked + r.random(asked/5)
		return d, v
	}
	v.after = r.shortened(r.backoff(d.Backoff))
	d.Backoff++
	return d, v
}

// backoff returns the delay that follows n delays.
func (r Retry) backoff(n int) time.Duration {
	delay := r.Backoff
	for ; n > 0 && delay < r.MaxBackoff; n-- {
		delay = min(2*delay, r.MaxBackoff)
	}
	return delay
}

// shortened takes up to a fifth off d, at random, so that events that failed together do not come
// back together.
func (r Retry) shortened(d time.Duration) time.Duration { return d - r.random(d/5) }

// random returns a random duration, at most most.
func (r Retry) random(most time.Duration) time.Duration {
	if r.exact {
		return 0
	}
	return time.Duration(rand.Int64N(int64(most) + 1))
}

// renewAfter is the number of refusals in a row as ErrStale after which a delivery is remade from
// the cache. After the first one the dispatcher waits for the change that caused it. That change is
// on its way, and brings the news in order.
const renewAfter = 2
