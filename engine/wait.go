package engine

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/source"
)

// wait is an evaluator's for the sources that its rules look into: neither when nor payload are evaluated before each of them has
// synced, or is known to be not served or forbidden. Nobody else is held up meanwhile: the informer goes on, with its other rules
// and with what is recorded of it, so that two sources may look into each other.
//
// What changes in the meantime waits in the rules' lanes, undecided, merged and recorded like any delivery: whatever becomes of
// this run, nothing of it is lost. Only rules that see the informer for the first time hear nothing, and are told afterwards of
// what there is by then.
type wait struct {
	on     []*source.Informer
	in     *source.Informer
	unseen map[*runningRule]bool // that see the informer for the first time
}

// hold has an evaluator of an informer wait. Nothing is known of what its rules have seen.
func (e *Engine) hold(evaluator *evaluator, in *source.Informer) {
	w := &wait{in: in, unseen: make(map[*runningRule]bool)}
	for _, s := range evaluator.rules[0].others {
		w.on = append(w.on, s.Informers()...)
	}
	for _, r := range evaluator.rules {
		w.unseen[r] = true
		r.hold()
	}
	evaluator.wait = w
	e.waiting = append(e.waiting, evaluator)
}

// hides tells whether a rule hears nothing yet. The nil wait hides nothing.
func (w *wait) hides(r *runningRule) bool { return w != nil && w.unseen[r] }

// saw says that the rule has seen the informer in another run.
func (w *wait) saw(r *runningRule) {
	if w != nil {
		delete(w.unseen, r)
	}
}

// await waits, and has the rules go on. It returns early when ctx ends.
func (e *evaluator) await(ctx context.Context) {
	w := e.wait // nobody changes it but goOn
	if source.WaitUntilSettled(ctx, w.on...) {
		w.in.Visit(e.goOn)
	}
}

// goOn has the rules decide what waits for that, and tells those that have seen nothing of what there is. It is called between
// two changes.
func (e *evaluator) goOn(known iter.Seq[*object.Object]) {
	w := e.wait
	e.wait = nil
	for _, r := range e.rules {
		r.goOn()
	}
	switch {
	case len(w.unseen) == 0:
		return
	case e.record.follows():
		maps.Copy(e.record.saved.late, w.unseen) // they are told once that was done
		return
	}
	step, end := e.record.steps()
	step()
	for o := range known {
		d := delta.Delta{Type: delta.Synced, Object: o}
		e.set.Each(d, &e.look, func(i int, _ *rule.Rule) {
			if r := e.rules[i]; w.unseen[r] {
				e.look.rule = r
				r.onDelta(d, &e.look)
			}
		})
		e.look.forget()
		step()
	}
	if e.record != nil {
		for r := range w.unseen {
			r.saw(e.record)
		}
	}
	end()
}

// hold has what the rule is offered be undecided, and wait, until a goOn for each hold.
func (r *runningRule) hold() {
	r.waits.Add(1)
	r.lane.Hold(true)
}

func (r *runningRule) goOn() {
	if r.waits.Add(-1) == 0 {
		r.lane.Hold(false)
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
	if r.waits.Load() > 0 && slices.ContainsFunc(r.view.Informers(), func(i *source.Informer) bool { return !i.IsSettled() }) {
		return "waits for its own source: its where is another than before"
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
