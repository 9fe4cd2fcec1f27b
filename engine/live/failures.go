package live

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/tally"
	"github.com/informd/informd/engine/trail"
	"github.com/informd/informd/internal/seldom"
)

// Failures counts the failed evaluations of one rule, index or metric, and logs each message at
// most once a minute. It is safe for concurrent use.
type Failures struct {
	log    *slog.Logger
	clock  clock.PassiveClock
	tell   func(ExpressionFailure) // does nothing in a daemon
	count  atomic.Uint64
	last   atomic.Pointer[ExpressionFailure] // nil until an expression failed
	logged seldom.Messages
}

// ExpressionFailure is a failed evaluation of an expression.
type ExpressionFailure struct {
	Reason string // without contents of objects
	Key    delta.Key
	At     time.Time
	Fault  Fault
	// Version is the resourceVersion of the object, if that is known.
	Version string
	// IsOver says that the fault was the object's, and that it is gone or evaluates well by now.
	// Only Failures.Last sets it.
	IsOver bool
}

// Fault says what a failure of a rule or index comes from, so that somebody can mend it.
type Fault string

// The faults.
const (
	OfExpression Fault = "expression" // what the others do not name
	OfObject     Fault = "object"     // a text of it, or of an object that is looked up, is malformed
	// OfPast is a text that the object no longer has: of its old state, or of an object that is
	// gone.
	OfPast    Fault = "past"
	OfBound   Fault = "bound"   // a count was too large, and informd dropped a part of it
	OfInformd Fault = "informd" // it has panicked
)

func faultOf(err error) Fault {
	_, hasPanicked := errors.AsType[*UnqueuedError](err)
	switch {
	case hasPanicked:
		return OfInformd
	case errors.Is(err, tally.ErrFull):
		return OfBound
	case rule.IsPast(err):
		return OfPast
	case expr.IsUnreadable(err):
		return OfObject
	}
	return OfExpression
}

// NewFailures returns a Failures that has counted none. attrs name the rule, the index or the
// metric in the log. tell gets each failure that does not show in another way.
func NewFailures(
	log *slog.Logger, clock clock.PassiveClock, tell func(ExpressionFailure), attrs ...any,
) *Failures {
	return &Failures{log: log.With(attrs...), clock: clock, tell: tell}
}

// TakeOver makes f go on with what former has counted: the rule before it, perhaps of another name.
func (f *Failures) TakeOver(former *Failures) {
	f.count.Store(former.count.Load())
	f.last.Store(former.last.Load())
}

// Add counts err, unless it is nil. key is the object's, or zero if the caller does not know it.
func (f *Failures) Add(err error, key delta.Key) { f.addAt(err, key, "") }

// AddOn is Add for a failure on an object, which may be nil.
func (f *Failures) AddOn(err error, o *object.Object) {
	if err != nil {
		f.addAt(err, delta.KeyOf(o), o.ResourceVersion())
	}
}

func (f *Failures) addAt(err error, key delta.Key, version string) {
	f.addSeenAt(err, key, version)
	if err != nil {
		f.tell(ExpressionFailure{Reason: err.Error(), Key: key, At: f.clock.Now()})
	}
}

// AddSeen is AddOn for a failure that also shows in another way: its event becomes a dead letter.
func (f *Failures) AddSeen(err error, o *object.Object) {
	if err != nil {
		f.addSeenAt(err, delta.KeyOf(o), o.ResourceVersion())
	}
}

func (f *Failures) addSeenAt(err error, key delta.Key, version string) {
	if err == nil {
		return
	}
	count, message, now := f.count.Add(1), err.Error(), f.clock.Now()
	f.last.Store(&ExpressionFailure{
		Reason: message, Key: key, At: now, Fault: faultOf(err), Version: version,
	})
	panicked := new(UnqueuedError)
	isPanic := errors.As(err, &panicked)
	if isPanic {
		dispatch.LogEvicted(f.log, panicked.Evicted)
	}
	if _, ok := f.logged.Allow(now, message); !ok {
		return
	}
	log := f.log
	if key != (delta.Key{}) {
		log = log.With("key", key.String())
	}
	if isPanic {
		log.Error("informd has panicked while it queued an event, which is a dead letter now: "+
			"please report this", "id", panicked.ID,
			"panic", fmt.Sprintf("%T", panicked.What), "stack", string(panicked.Stack))
		return
	}
	if faultOf(err) == OfBound {
		log.Warn("a rule has forgotten a part of what it counts", "error", message, "failures", count)
		return
	}
	log.Warn("an expression failed", "error", message, "failures", count)
}

// Last returns the last failure, or nil. view has the objects that the failures are about; nil
// means that nobody knows. changes says what became of them since; nil means that nobody remembers.
func (f *Failures) Last(view *source.Source, changes *trail.Trail) *ExpressionFailure {
	last := f.last.Load()
	if last == nil || view == nil || last.Fault != OfObject || last.Version == "" {
		return last
	}
	o, ok := view.Get(last.Key.Namespace, last.Key.Name)
	isOver := !ok && view.HasSynced() || ok && o.ResourceVersion() != last.Version ||
		slices.ContainsFunc(changes.Of(last.Key), func(e trail.Entry) bool {
			return e.At.After(last.At) && e.Verdict != trail.Failed && e.Verdict != trail.Undecided
		})
	if isOver {
		over := *last
		over.IsOver, last = true, &over
	}
	return last
}

// Count returns how many failures there were.
func (f *Failures) Count() uint64 { return f.count.Load() }

// of returns a function that adds failures on the object of the key.
func (f *Failures) of(key delta.Key) func(error) {
	return func(err error) { f.Add(err, key) }
}

// UnqueuedError says that informd has panicked while it queued a match.
type UnqueuedError struct {
	What    any
	Stack   []byte
	ID      string            // of the event, which is a dead letter
	Evicted []delivery.Letter // by that letter
}

// Error implements error.
func (e *UnqueuedError) Error() string { return fmt.Sprintf("panic while it was queued: %T", e.What) }
