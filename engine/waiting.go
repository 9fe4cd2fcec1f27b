package engine

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
)

// waiting makes rules of one intake wait until the other sources that they look into have settled.
// A source has settled when it has synced, or is known to be not served, forbidden or unusable.
// Rules that may act wait until it has synced: see preparer.awaited. Nothing else waits: the
// informer goes on, with its other rules and its record. So two sources may look into each other.
//
// Meanwhile the rules' lanes collect undecided changes, merged and recorded like any delivery.
// Nothing is lost, however this run ends. Only rules that see the informer for the first time get
// no changes. From release on they learn of the objects that exist by then.
type waiting struct {
	in    *intake
	rules []*runningRule // of the intake; all look into the same sources, and all or none may act
	on    []*source.Informer
	end   func() // ends run
}

// waitForOthers makes those rules of an intake wait that look into other sources, and may.
func (in *intake) waitForOthers(may func(i int) bool) (all []*waiting) {
	type group struct {
		sources string // that the rules look into
		mayAct  bool
	}
	groups := make(map[group]*waiting)
	for i, r := range in.rules {
		if len(r.others) == 0 || !may(i) {
			continue
		}
		of := group{r.looksInto(), r.preparer.mayAct}
		w := groups[of]
		if w == nil {
			w = &waiting{in: in}
			for _, s := range r.others {
				w.on = append(w.on, s.Informers()...)
			}
			groups[of] = w
			all = append(all, w)
		}
		w.rules = append(w.rules, r)
		in.learns.unseen[i] = true
		r.hold()
	}
	return all
}

// run waits, and then releases the rules. It returns early when ctx ends.
func (w *waiting) run(ctx context.Context) {
	if w.rules[0].preparer.wait(ctx, w.on) {
		w.in.informer.Visit(w.release)
	}
}

// release lets the rules decide their waiting changes. Those that have seen nothing learn of the
// existing objects. The informer calls it between two steps.
func (w *waiting) release(known iter.Seq[*object.Object]) {
	in := w.in.latest()
	var unseen []int
	for _, r := range w.rules {
		r.release()
		if i := slices.Index(in.rules, r); i >= 0 && in.learns.unseen[i] {
			delete(in.learns.unseen, i)
			unseen = append(unseen, i)
		}
	}
	if len(unseen) == 0 {
		return
	}
	var pupils []follow.Pupil
	for _, i := range unseen {
		if !in.learns.caughtUp {
			in.learns.makeLate(i)
			continue
		}
		pupils = append(pupils, follow.Pupil{Rule: i})
	}
	in.beginCatchUp(pupils, known, nil, false)
}

// waits reports whether one of the rules may still wait, and goes on with that in a work.
func (w *waiting) waits(in *work) bool {
	return slices.ContainsFunc(w.rules, func(r *runningRule) bool {
		return r.waits.Load() > 0 && slices.Contains(in.rules, r)
	})
}

func isUnsettled(i *source.Informer) bool { return !i.IsSettled() }

// hold makes the rule queue its changes undecided. Each hold must be matched by a release.
func (r *runningRule) hold() {
	r.waits.Add(1)
	if r.lane != nil { // otherwise it begins held; see reload.succeed
		r.lane.Hold(true)
	}
}

// release ends one hold.
func (r *runningRule) release() {
	if r.waits.Add(-1) == 0 {
		r.lane.Hold(false)
	}
}

// looksInto returns the names of the other sources that the rule looks into.
func (r *runningRule) looksInto() string {
	names := make([]string, 0, len(r.others))
	for _, s := range r.others {
		names = append(names, s.Name())
	}
	return strings.Join(names, ",")
}

// reason describes the sources that the rule looks into for operators, or returns "" if they are in
// order. waits says that the rule decides nothing until they have settled.
func (r *runningRule) reason() (waits bool, reason string) {
	if awaited := r.preparer.awaited(); len(awaited) > 0 && r.waits.Load() > 0 {
		names := make([]string, 0, len(awaited))
		for _, s := range awaited {
			name := s.Name()
			if state, is := missing(s); is {
				name += " is " + state.String()
			}
			names = append(names, name)
		}
		return true, "waits for what it looks into: " + strings.Join(names, ", ")
	}
	if r.waits.Load() > 0 && slices.ContainsFunc(r.view.Informers(), isUnsettled) {
		return true, "waits for its own source: its where has changed"
	}
	var empty []string
	for _, s := range r.others {
		if state, is := missing(s); is {
			empty = append(empty, s.Name()+" is "+state.String())
		}
	}
	if len(empty) == 0 {
		return false, ""
	}
	return false, "finds nothing in what it looks into: " + strings.Join(empty, ", ")
}

// missing reports whether a source, or a part of it, is known to be not served, forbidden or unusable
// and has nothing, and returns that state.
func missing(s *source.Source) (state source.State, is bool) {
	for _, i := range s.Informers() {
		if state, _ := i.State(); !i.HasSynced() && i.IsSettled() {
			return state, true
		}
	}
	return state, false
}
