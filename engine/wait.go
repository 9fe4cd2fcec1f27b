package engine

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
)

// wait is an evaluator's for the sources that its rules look into: nothing is evaluated before each of them has synced, or is
// known to be not served or forbidden. Nobody else is held up meanwhile: the informer goes on, with its other rules and with
// what it says to be known, so that two sources may look into each other.
//
// What comes in the meantime is not kept. Afterwards the rules are told what there is by then: at first sight as Synced. If
// their last run is followed up, what was saved is compared with it, as if it had all come at once; and until then it stays on
// disk as it is, for another run would need it to the same end.
type wait struct {
	on   []*source.Informer
	in   *source.Informer
	gone map[delta.Key]*object.Object // the last state of what was saved and is gone
}

// hold has an evaluator of an informer wait.
func (e *Engine) hold(evaluator *evaluator, in *source.Informer) {
	w := &wait{in: in, gone: make(map[delta.Key]*object.Object)}
	for _, s := range evaluator.rules[0].others {
		w.on = append(w.on, s.Informers()...)
	}
	for _, r := range evaluator.rules {
		r.waits.Add(1)
	}
	evaluator.wait = w
	e.waiting = append(e.waiting, evaluator)
}

// note takes note of a change. saved is what was saved of its object, or nil.
func (w *wait) note(saved *object.Object, d delta.Delta) {
	if d.Type == delta.Deleted && saved != nil && saved.UID() == d.Object.UID() {
		w.gone[d.Key()] = d.Object
	}
}

// last is the last state of an object that is gone.
func (w *wait) last(saved *object.Object) *object.Object {
	if o := w.gone[delta.Delta{Object: saved}.Key()]; o != nil {
		return o
	}
	return saved
}

// await waits, and has the rules go on. It returns early when ctx ends.
func (e *evaluator) await(ctx context.Context) {
	w := e.wait // nobody changes it but goOn
	if source.WaitUntilSettled(ctx, w.on...) {
		w.in.Visit(e.goOn)
	}
}

// goOn tells the rules of what there is. It is called between two changes.
func (e *evaluator) goOn(known iter.Seq[*object.Object]) {
	w := e.wait
	e.wait = nil
	defer func() {
		for _, r := range e.rules {
			r.waits.Add(-1)
		}
	}()
	begin, end := e.record.steps()
	begin()
	if e.record == nil || e.record.saved == nil {
		for o := range known {
			e.onDelta(delta.Delta{Type: delta.Synced, Object: o}, nil)
			begin()
		}
		e.record.saw(e.rules)
	} else {
		e.compare(e.record.saved, w, known, begin)
	}
	end()
	e.record.wentOn(e, known)
}

// compare tells the rules that are not late what is different from what was saved. step is called after each object.
func (e *evaluator) compare(s *saved, w *wait, known iter.Seq[*object.Object], step func()) {
	secret := e.record.secret
	each := func(f func(*runningRule)) {
		for _, r := range e.rules {
			if e.look.rule = r; !s.late[r] {
				f(r)
			}
		}
		e.look.forget()
		step()
	}
	tell := func(d delta.Delta) { each(func(r *runningRule) { r.onDelta(d, &e.look) }) }
	leave := func(before *object.Object) {
		if s.partial {
			each(func(r *runningRule) { r.fellOut(s, before, secret, &e.look) })
			return
		}
		tell(delta.Delta{Type: delta.Deleted, Object: w.last(before), Old: before})
	}
	there := make(map[delta.Key]bool)
	for o := range known {
		key := delta.Delta{Object: o}.Key()
		there[key] = true
		before := s.objects[key]
		if before != nil && before.UID() != o.UID() {
			leave(before)
			before = nil
		}
		switch {
		case before == nil:
			tell(delta.Delta{Type: delta.Added, Object: o})
		case before.ResourceVersion() == o.ResourceVersion():
		case s.partial:
			each(func(r *runningRule) { r.compare(s, before, o, secret, &e.look) })
		default:
			tell(delta.Delta{Type: delta.Updated, Object: o, Old: before})
		}
	}
	for key, before := range s.objects {
		if !there[key] {
			leave(before)
		}
	}
}

// looksInto names the sources that the rule looks into.
func (r *runningRule) looksInto() string {
	names := make([]string, 0, len(r.others))
	for _, s := range r.others {
		names = append(names, s.Name())
	}
	return strings.Join(names, ",")
}

// reason says how the sources that the rule looks into stand, if that is of note.
func (r *runningRule) reason() string {
	if names := r.unsettled(); len(names) > 0 && r.waits.Load() > 0 {
		return "waits for what it looks into: " + strings.Join(names, ", ")
	}
	var empty []string
	for _, s := range r.others {
		for _, i := range s.Informers() {
			if state, _ := i.State(); !i.HasSynced() && i.IsSettled() {
				empty = append(empty, s.Name()+" is "+state.String())
				break
			}
		}
	}
	if len(empty) == 0 {
		return ""
	}
	return "finds nothing in what it looks into: " + strings.Join(empty, ", ")
}

// unsettled are those of them that have neither synced nor are known to have nothing.
func (r *runningRule) unsettled() (names []string) {
	for _, s := range r.others {
		if slices.ContainsFunc(s.Informers(), func(i *source.Informer) bool { return !i.IsSettled() }) {
			names = append(names, s.Name())
		}
	}
	return names
}
