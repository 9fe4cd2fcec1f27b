package engine

import (
	"context"
	"iter"
	"slices"

	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
)

// waiting makes rules of one intake wait until the other sources that they look into have settled.
// A source has settled when it has synced, or is known to be not served, forbidden or unusable.
// Rules that may act wait until it has synced: see live.Preparer.Awaited. Nothing else waits: the
// informer goes on, with its other rules and its record. So two sources may look into each other.
//
// Meanwhile the rules' lanes collect undecided changes, merged and recorded like any delivery.
// Nothing is lost, however this run ends. Only rules that see the informer for the first time get
// no changes. From release on they learn of the objects that exist by then.
type waiting struct {
	in    *intake
	rules []*live.Rule // of the intake; all look into the same sources, and all or none may act
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
		if len(r.Preparer.Others) == 0 || !may(i) {
			continue
		}
		of := group{mayAct: r.Preparer.MayAct}
		for _, s := range r.LooksInto {
			of.sources += s.Name + ","
		}
		w := groups[of]
		if w == nil {
			w = &waiting{in: in}
			for _, s := range r.Preparer.Others {
				w.on = append(w.on, s.Informers()...)
			}
			groups[of] = w
			all = append(all, w)
		}
		w.rules = append(w.rules, r)
		in.learns.unseen[i] = true
		r.Hold()
	}
	return all
}

// run waits, and then releases the rules. It returns early when ctx ends.
func (w *waiting) run(ctx context.Context) {
	if w.rules[0].Preparer.Wait(ctx, w.on) {
		w.in.informer.Visit(w.release)
	}
}

// release lets the rules decide their waiting changes. Those that have seen nothing learn of the
// existing objects. The informer calls it between two steps.
func (w *waiting) release(known iter.Seq[*object.Object]) {
	in := w.in.latest()
	var unseen []int
	for _, r := range w.rules {
		r.Release()
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
	return slices.ContainsFunc(w.rules, func(r *live.Rule) bool {
		return r.IsHeld() && slices.Contains(in.rules, r)
	})
}
