package due

import (
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

// Rules are the rules of one informer, by their position there, with the objects that wait for the
// timed ones. They are not safe for concurrent use. The zero Rules are none.
type Rules struct {
	all   []entry
	timed []int // those for which objects may wait
}

// entry is one rule.
type entry struct {
	rule    *rule.Rule
	total   *Total
	objects *objects // nil: none may wait
}

// Add adds a rule. Its objects count in total from Count on.
func (r *Rules) Add(of *rule.Rule, total *Total, now time.Time) {
	r.all = append(r.all, entry{rule: of, total: total})
	if of.IsTimed() {
		r.set(len(r.all)-1, newObjects(of, now))
	}
}

// set makes objects wait for a rule.
func (r *Rules) set(i int, w *objects) {
	if r.all[i].objects == nil {
		r.timed = append(r.timed, i)
	}
	r.all[i].objects = w
}

// Timed returns the rules for which objects may wait. The caller must not change it.
func (r *Rules) Timed() []int { return r.timed }

// Marks returns what [evaluate.Standing] needs of a rule: nil if no object may wait for it.
func (r *Rules) Marks(i int) func(*object.Object) time.Time {
	if w := r.all[i].objects; w != nil {
		return w.marks
	}
	return nil
}

// Mark returns the mark of an object, or the zero time if it does not wait for the rule.
func (r *Rules) Mark(i int, of *object.Object) time.Time {
	if w := r.all[i].objects; w != nil {
		return w.mark(of)
	}
	return time.Time{}
}

// Recorded returns a mark of a rule as it is recorded: as the clock shows it now.
func (r *Rules) Recorded(i int, mark, now time.Time) time.Time {
	return r.all[i].objects.recorded(mark, now)
}

// Apply applies the marks of a change. It reports whether something is due earlier than before.
func (r *Rules) Apply(waits []evaluate.Wait) (earlier bool) {
	for _, w := range waits {
		earlier = r.all[w.Rule].objects.set(w.Of, w.Mark) || earlier
	}
	return earlier
}

// Restore restores what waited for rules when the state was saved. inside has what was recorded
// beside each object. known are the rules for which it does so, by ID. What waits for a rule that
// is not timed any more is due at once.
func (r *Rules) Restore(
	all []*object.Object, inside map[delta.Key][]string, known map[string]int, now time.Time,
) {
	if len(inside) == 0 {
		return
	}
	for _, o := range all {
		for _, name := range inside[delta.KeyOf(o)] {
			mark, ok := resume.ReadMark(name)
			if !ok {
				continue
			}
			i, ok := known[mark.Rule]
			if !ok {
				continue
			}
			if e := &r.all[i]; e.objects == nil {
				r.set(i, newObjects(e.rule, now))
				e.total.add(e.objects)
			}
			r.all[i].objects.restore(o, mark.At, now)
		}
	}
}

// Count makes the rules' totals count what waits here.
func (r *Rules) Count() {
	for _, e := range r.all {
		if e.objects != nil {
			e.total.add(e.objects)
		}
	}
}

// Carry makes what waits in old for its rule j wait for the rule i, which takes its place.
func (r *Rules) Carry(i int, old *Rules, j int) {
	if w := old.all[j].objects; w != nil {
		w.follow(r.all[i].rule)
		r.set(i, w)
	}
}

// Succeed makes totals count what waits here, and no longer what waited only in old.
func (r *Rules) Succeed(old *Rules) {
	for _, was := range old.all {
		isHere := func(e entry) bool { return e.objects == was.objects }
		if was.objects != nil && !slices.ContainsFunc(r.all, isHere) {
			was.total.remove(was.objects)
		}
	}
	r.Count()
}

// Informer is what Elapse asks an informer.
type Informer interface {
	// IsFresh reports whether the informer has missed no changes.
	IsFresh() bool
	// Confirms reports whether an object was still as it is known at a time. Otherwise the informer
	// finds that out, also for others.
	Confirms(o *object.Object, at time.Time, others iter.Seq[string]) bool
}

// Turn is one turn of Elapse.
type Turn struct {
	Began    time.Time
	Now      func() time.Time
	Informer Informer
	Get      func(key string) *object.Object // nil: the informer has no such object
	// Decide decides whether an object that is ready is a member now, and sets its mark by Apply.
	Decide func(rule int, o *object.Object, now time.Time)
}

// Elapse has the turn decide about objects that are ready, the earliest first, and returns when to
// go on; the zero time means that no object waits.
func (r *Rules) Elapse(t Turn) (again time.Time) {
	for {
		i, ready, ok := r.first()
		now := t.Now()
		switch {
		case !ok || ready.After(now):
			return ready
		case !t.Informer.IsFresh():
			return now.Add(timing.Stale)
		case now.Sub(t.Began) > timing.Turn:
			return now.Add(timing.Lull * now.Sub(t.Began))
		}
		w := r.all[i].objects
		key, at, _ := w.waiting.First()
		o := t.Get(key)
		if o == nil { // cannot happen, as what is gone does not wait; but Elapse would never end
			w.waiting.Delete(key)
			continue
		}
		until := at + now.Sub(ready).Milliseconds()
		if !t.Informer.Confirms(o, ready, w.waiting.Until(until)) {
			return now.Add(timing.Stale)
		}
		t.Decide(i, o, now)
	}
}

// first returns the rule for which an object is ready first, and when.
func (r *Rules) first() (rule int, at time.Time, ok bool) {
	for _, i := range r.timed {
		if ready, waits := r.all[i].objects.ready(); waits && (!ok || ready.Before(at)) {
			rule, at, ok = i, ready, true
		}
	}
	return rule, at, ok
}
