package due

import (
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

// objects are the objects of one informer that wait to become members of one timed rule. The
// informer's lock guards the fields, except the counters for the status.
type objects struct {
	rule    *rule.Rule
	waiting timing.Waiting
	// origin is the zero of the times in waiting, if the rule counts how long where has held. It
	// has a monotonic reading, so that a clock that is set does not matter. Otherwise the times are
	// Unix times, because due computes times of the clock.
	origin time.Time
	marks  func(*object.Object) time.Time // the method mark

	// The status reads these without a lock.
	count atomic.Int64
	next  atomic.Int64 // Unix time in milliseconds at which the first object is ready
}

func newObjects(r *rule.Rule, now time.Time) *objects {
	w := &objects{rule: r}
	if r.Due == nil {
		w.origin = now
	}
	w.marks = w.mark
	return w
}

// mark returns the mark of an object; see [rule.Rule.IsTimed].
func (w *objects) mark(of *object.Object) time.Time {
	at, ok := w.waiting.Get(of.Key())
	if !ok {
		return time.Time{}
	}
	return w.time(at)
}

func (w *objects) time(at int64) time.Time {
	if w.origin.IsZero() {
		return time.UnixMilli(at)
	}
	return w.origin.Add(time.Duration(at) * time.Millisecond)
}

// set sets or removes the mark of an object, and reports whether the first one is ready earlier
// than before. A mark is never early by rounding.
func (w *objects) set(of *object.Object, mark time.Time) (earlier bool) {
	_, before, had := w.waiting.First()
	switch {
	case mark.IsZero():
		w.waiting.Delete(of.Key())
	case w.origin.IsZero():
		w.waiting.Put(of.Key(), mark.Add(time.Millisecond-1).UnixMilli())
	default:
		since := mark.Sub(w.origin)
		at := since / time.Millisecond // rounds up what is before the origin
		if since > at*time.Millisecond {
			at++
		}
		w.waiting.Put(of.Key(), int64(at))
	}
	_, first, has := w.waiting.First()
	w.count.Store(int64(w.waiting.Len()))
	if has && (!had || first != before) {
		w.next.Store(w.rule.Ready(w.time(first)).UnixMilli())
	}
	return has && (!had || first < before)
}

// follow makes the objects wait for r, the rule after a reload.
func (w *objects) follow(r *rule.Rule) {
	w.rule = r
	if at, ok := w.ready(); ok {
		w.next.Store(at.UnixMilli())
	}
}

// ready returns when the first object is ready, if any waits.
func (w *objects) ready() (at time.Time, ok bool) {
	_, first, ok := w.waiting.First()
	if !ok {
		return time.Time{}, false
	}
	return w.rule.Ready(w.time(first)), true
}

// recorded returns a mark as it is recorded: as the clock shows it now.
func (w *objects) recorded(mark, now time.Time) time.Time {
	if !w.origin.IsZero() {
		mark = now.Round(0).Add(-now.Sub(mark))
	}
	return mark
}

// restore sets the mark of an object that another process recorded. A time in the future, from
// before the clock was set, counts as now.
func (w *objects) restore(of *object.Object, mark, now time.Time) {
	if !w.origin.IsZero() {
		mark = now.Add(-max(0, now.Round(0).Sub(mark)))
	}
	w.set(of, mark)
}
