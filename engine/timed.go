package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/timing"
)

// timed are the objects of one informer that wait to become members of one timed rule. The
// informer's lock guards the fields, except the counters for the status.
type timed struct {
	rule    *runningRule
	objects timing.Waiting
	// origin is the zero of the times in objects, if the rule counts how long where has held. It
	// has a monotonic reading, so that a clock that is set does not matter. Otherwise the times are
	// Unix times, because due computes times of the clock.
	origin time.Time
	marks  func(*object.Object) time.Time // the method mark

	// The status reads these without a lock.
	count atomic.Int64
	next  atomic.Int64 // Unix time in milliseconds at which the first object is ready
}

func newTimed(r *runningRule, now time.Time) *timed {
	w := &timed{rule: r}
	if r.Due == nil {
		w.origin = now
	}
	w.marks = w.mark
	return w
}

// allTimed are the objects that wait for one rule, over all informers.
type allTimed struct {
	mu  sync.Mutex // a leaf
	all []*timed
}

func (a *allTimed) add(t *timed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.all, t) {
		a.all = append(a.all, t)
	}
}

// remove takes out what does not wait any more.
func (a *allTimed) remove(t *timed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = slices.DeleteFunc(a.all, func(other *timed) bool { return other == t })
}

// stats returns how many objects wait, and when the first of them is ready; the zero time if none
// waits.
func (a *allTimed) stats() (pending int, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.all {
		n := int(t.count.Load())
		at := time.UnixMilli(t.next.Load())
		if n > 0 && (pending == 0 || at.Before(next)) {
			next = at
		}
		pending += n
	}
	return pending, next
}

// mark returns the mark of an object; see [rule.Rule.IsTimed].
func (w *timed) mark(of *object.Object) time.Time {
	at, ok := w.objects.Get(of.Key())
	if !ok {
		return time.Time{}
	}
	return w.time(at)
}

func (w *timed) time(at int64) time.Time {
	if w.origin.IsZero() {
		return time.UnixMilli(at)
	}
	return w.origin.Add(time.Duration(at) * time.Millisecond)
}

// set sets or removes the mark of an object, and reports whether the first one is ready earlier
// than before. A mark is never early by rounding.
func (w *timed) set(of *object.Object, mark time.Time) (earlier bool) {
	_, before, had := w.objects.First()
	switch {
	case mark.IsZero():
		w.objects.Delete(of.Key())
	case w.origin.IsZero():
		w.objects.Put(of.Key(), mark.Add(time.Millisecond-1).UnixMilli())
	default:
		since := mark.Sub(w.origin)
		at := since / time.Millisecond // rounds up what is before the origin
		if since > at*time.Millisecond {
			at++
		}
		w.objects.Put(of.Key(), int64(at))
	}
	_, first, has := w.objects.First()
	w.count.Store(int64(w.objects.Len()))
	if has && (!had || first != before) {
		w.next.Store(w.rule.Ready(w.time(first)).UnixMilli())
	}
	return has && (!had || first < before)
}

// follow makes the objects wait for r, the rule after a reload.
func (w *timed) follow(r *runningRule) {
	w.rule = r
	if at, ok := w.ready(); ok {
		w.next.Store(at.UnixMilli())
	}
}

// ready returns when the first object is ready, if any waits.
func (w *timed) ready() (at time.Time, ok bool) {
	_, first, ok := w.objects.First()
	if !ok {
		return time.Time{}, false
	}
	return w.rule.Ready(w.time(first)), true
}

// recorded returns a mark as it is recorded: as the clock shows it now.
func (w *timed) recorded(mark, now time.Time) resume.Mark {
	if !w.origin.IsZero() {
		mark = now.Round(0).Add(-now.Sub(mark))
	}
	return resume.Mark{Rule: w.rule.id, At: mark}
}

// restore sets the mark of an object that another process recorded. A time in the future, from
// before the clock was set, begins anew.
func (w *timed) restore(of *object.Object, recorded resume.Mark, now time.Time) {
	mark := recorded.At
	if !w.origin.IsZero() {
		mark = now.Add(-max(0, now.Round(0).Sub(mark)))
	}
	w.set(of, mark)
}

// restoreWaits takes up what waited for the rules when the state was saved. Rules that are known
// take up theirs, also a rule that has no for any more: what waits for it is a member at once.
func (in *intake) restoreWaits(objects []*object.Object, inside map[delta.Key][]string) {
	if len(inside) == 0 {
		return
	}
	now := in.clock.Now()
	byID := make(map[string]int, len(in.rules))
	for i, r := range in.rules {
		if in.learns.resuming.verdicts[i].Standing == resume.Known {
			byID[r.id] = i
		}
	}
	for _, o := range objects {
		for _, name := range inside[keyOf(o)] {
			mark, ok := resume.ReadMark(name)
			if !ok {
				continue
			}
			i, ok := byID[mark.Rule]
			if !ok {
				continue
			}
			if in.waits[i] == nil {
				in.makeTimed(i, newTimed(in.rules[i], now))
				in.rules[i].timed.add(in.waits[i])
			}
			in.waits[i].restore(o, mark, now)
		}
	}
}

// makeTimed makes objects wait for a rule.
func (in *intake) makeTimed(i int, w *timed) {
	if in.waits[i] == nil {
		in.timed = append(in.timed, i)
	}
	in.waits[i] = w
}

// countWaiting has the rules count what waits for them here.
func (in *intake) countWaiting() {
	for i, w := range in.waits {
		if w != nil {
			in.rules[i].timed.add(w)
		}
	}
}

// mark applies the marks of a change. It reports whether a tick is due earlier than before.
func (in *intake) mark(c *evaluate.Change) (earlier bool) {
	for _, w := range c.Waits {
		earlier = in.waits[w.Rule].set(w.Of, w.Mark) || earlier
	}
	return earlier
}

const (
	// turn is how long a tick keeps changes of its informer waiting.
	turn = 250 * time.Microsecond
	// lull is how long ticks rest after a turn, as a multiple of the time that it took.
	lull = 3
	// panicked is how long an object waits on whose evaluation has panicked.
	panicked = time.Minute
	// stale is how long ticks rest while the informer may have missed changes.
	stale = 200 * time.Millisecond
)

// Tick implements source.Consumer. It has rules catch up, makes members of the objects that have waited
// long enough, and measures objects for gauges.
func (in *intake) Tick(began time.Time, get func(key string) *object.Object) (again time.Time) {
	if len(in.learns.catchUps) > 0 {
		again = in.catchUpSome(began, get)
		began = in.clock.Now()
	}
	again = timing.Earlier(again, in.elapseSome(began, get))
	return timing.Earlier(again, in.measureSome(in.clock.Now(), get))
}

// elapseSome does a turn of what is due for timed rules, and returns when to go on.
func (in *intake) elapseSome(
	began time.Time, get func(key string) *object.Object,
) (again time.Time) {
	for {
		i, ready, ok := in.firstReady()
		now := in.clock.Now()
		switch {
		case !ok || ready.After(now):
			return ready
		case !in.informer.IsFresh():
			return now.Add(stale)
		case now.Sub(began) > turn:
			return now.Add(lull * now.Sub(began))
		case !in.isConfirmed(i, ready, now, get):
			return now.Add(stale)
		}
		in.elapse(i, now, get)
	}
}

// isConfirmed reports whether the first object that waits for a rule was still as it is known when
// it became ready, or later. Otherwise the informer finds that out, also for others that are ready.
func (in *intake) isConfirmed(
	i int, ready, now time.Time, get func(key string) *object.Object,
) bool {
	key, at, _ := in.waits[i].objects.First()
	o := get(key)
	if o == nil {
		return true // elapse forgets it
	}
	until := at + now.Sub(ready).Milliseconds()
	return in.informer.Confirms(o, ready, in.waits[i].objects.Until(until))
}

// firstReady returns the rule for which an object is ready first, and when.
func (in *intake) firstReady() (rule int, at time.Time, ok bool) {
	for _, i := range in.timed {
		if ready, waits := in.waits[i].ready(); waits && (!ok || ready.Before(at)) {
			rule, at, ok = i, ready, true
		}
	}
	return rule, at, ok
}

// elapse has the evaluator decide about the first object that waits for a rule, which is ready.
func (in *intake) elapse(i int, now time.Time, get func(key string) *object.Object) {
	key, _, _ := in.waits[i].objects.First()
	o := get(key)
	if o == nil { // cannot happen, as what is gone does not wait; but Tick would never end
		in.waits[i].objects.Delete(key)
		return
	}
	in.record.pace()
	c := &in.change
	c.Reset()
	in.now = now
	in.evaluator.Elapse(i, o, now, c)
	if len(c.Waits) == 0 { // a panic, which only a defect of informd can cause: it waits on
		mark := now.Add(panicked - in.waits[i].rule.For)
		c.Waits = append(c.Waits, evaluate.Wait{Rule: i, Of: o, Mark: mark})
	}
	in.note(delta.Delta{Type: delta.Synced, Object: o}, c)
	in.measure(o, false, nil, c)
	in.commit(c, o)
}
