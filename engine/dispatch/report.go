package dispatch

import (
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/internal/seldom"
)

// unsaid stands for a reason in the log that may quote a Secret.
const unsaid = "not shown, as it may quote a secret"

// reports logs what happens to a lane's deliveries, and remembers the last failure. It limits what
// it logs: of each kind of reason (see seldom.Kind) a line a minute, and of the letters of a kind a
// few more, because each line names another object. The rest is counted, and the next line says how
// much that was.
type reports struct {
	rule      string
	log       *slog.Logger
	clock     clock.PassiveClock
	failed    atomic.Pointer[Failure] // the last failure
	isCrowded atomic.Bool             // the lane is in Dispatcher.crowded

	failing, unmade, letters, evicted, crowded, loading, unrecorded seldom.Messages
}

func newReports(rule string, log *slog.Logger, c clock.PassiveClock) *reports {
	return &reports{
		rule: rule, log: log, clock: c,
		failing: seldom.Messages{Max: maxReasons},
		letters: seldom.Messages{Max: maxReasons, Times: maxLetters},
	}
}

const (
	// maxReasons bounds the kinds of reasons of failures that a lane logs per minute, and of
	// letters.
	maxReasons = 4
	// maxLetters bounds the letters of one kind that a lane logs per minute.
	maxLetters = 10
)

// Failure is a failed attempt that the dispatcher will repeat.
type Failure struct {
	Key          delta.Key
	Reason       string // from the handler or from an action, at most 256 bytes
	Confidential bool   // Reason may quote a Secret, and must not be shown
	Attempt      int
	At           time.Time
}

// reasonOf returns why an attempt failed that comes again. Attempts that fail for the same reason
// share its memory.
func (r *reports) reasonOf(o *outcome) string {
	reason := bounded(o.reason, maxLogged)
	if last := r.failed.Load(); last != nil && last.Reason == reason {
		return last.Reason
	}
	return reason
}

// reportFailure remembers and logs an attempt that failed and will be repeated. after is the delay.
func (r *reports) reportFailure(f Failure, id string, after time.Duration) {
	r.failed.Store(&f)
	reason := f.Reason
	if f.Confidential {
		reason = unsaid
	}
	held, ok := r.failing.Allow(f.At, seldom.Kind(reason))
	if !ok {
		return
	}
	r.log.Warn("delivery failed and will be repeated",
		"rule", r.rule, "key", f.Key.String(), "id", id, "attempt", f.Attempt,
		"reason", reason, "after", after.Round(time.Millisecond), "unreported", held)
}

// reportLoading logs that deliveries could not be loaded.
func (r *reports) reportLoading(err error) {
	if held, ok := r.loading.Allow(r.clock.Now(), ""); ok {
		r.log.Error("could not read deliveries that wait on disk", "rule", r.rule,
			"error", bounded(err.Error(), maxLogged), "unreported", held)
	}
}

// reportUnrecorded logs that actions are performed without a record of them.
func (r *reports) reportUnrecorded(err error) {
	if held, ok := r.unrecorded.Allow(r.clock.Now(), ""); ok {
		r.log.Warn("performing actions without a record of them: "+
			"after a crash informd delivers the event again",
			"rule", r.rule, "error", bounded(err.Error(), maxLogged), "unreported", held)
	}
}

// reportLetter logs that an event became a dead letter, or why it did not. An expression may fail
// on all objects of a source, and a handler may reject them all: see reports.
func (r *reports) reportLetter(o *outcome) {
	reason := bounded(o.letter.Reason, maxLogged)
	if o.letter.Quotes() {
		reason = unsaid + "; informd dead show --show-secrets has it until informd restarts"
	}
	attrs := []any{
		"rule", o.letter.Rule, "key", o.letter.Key.String(), "id", o.letter.ID,
		"attempt", o.letter.Attempts, "reason", reason,
	}
	if o.unkept != nil {
		attrs = append(attrs, "error", bounded(o.unkept.Error(), maxLogged))
		if held, ok := r.letters.Allow(o.at, "unkept"); ok {
			attrs = append(attrs, "unreported", held)
			r.log.Error("dead letter could not be kept; the event is repeated", attrs...)
		}
		return
	}
	says := &r.letters
	if o.letter.Plain {
		says = &r.unmade
	}
	if held, ok := says.Allow(o.at, seldom.Kind(reason)); ok {
		if held > 0 {
			attrs = append(attrs, "unreported", held)
		}
		r.log.Warn("event became a dead letter", attrs...)
	}
}

// reportEvicted logs letters that were dropped to make room. It logs to log, since LogEvicted names
// the handler itself.
func (r *reports) reportEvicted(log *slog.Logger, letters []delivery.Letter, at time.Time) {
	if len(letters) == 0 {
		return
	}
	if held, ok := r.evicted.Allow(at, ""); ok {
		LogEvicted(log.With("unreported", held), letters)
	}
}
