package intake

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
)

// Waiting makes rules of one intake wait until the other sources that they look into have settled.
// A source has settled when it has synced, or is known to be not served, forbidden or unusable.
// Rules that may act wait until it has synced: see live.Preparer.Awaited. Nothing else waits: the
// informer goes on, with its other rules and its record. So two sources may look into each other.
//
// Meanwhile the rules' lanes collect undecided changes, merged and recorded like any delivery.
// Nothing is lost, however this run ends. Only rules that see the informer for the first time get
// no changes. From release on they learn of the objects that exist by then.
type Waiting struct {
	in    *Intake
	rules []*live.Rule // of the intake; all look into the same sources, and all or none may act
	On    []*source.Informer
	End   func() // ends run
}

// WaitForOthers makes those rules of an intake wait that look into other sources, and may. It is called before the intake
// is at work.
func WaitForOthers(in *Intake, may func(r *live.Rule) bool) (all []*Waiting) {
	type group struct {
		sources string // that the rules look into
		mayAct  bool
	}
	groups := make(map[group]*Waiting)
	for i, r := range in.Rules {
		if len(r.Preparer.Others) == 0 || !may(r) {
			continue
		}
		of := group{mayAct: r.Preparer.MayAct}
		for _, s := range r.LooksInto {
			of.sources += s.Name + ","
		}
		w := groups[of]
		if w == nil {
			w = &Waiting{in: in}
			for _, s := range r.Preparer.Others {
				w.On = append(w.On, s.Informers()...)
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

// Run waits, and then releases the rules. It returns early when ctx ends.
func (w *Waiting) Run(ctx context.Context) {
	if w.rules[0].Preparer.Wait(ctx, w.On) {
		w.in.Informer.Visit(w.release)
	}
}

// Awaits reports whether the rules wait for an informer.
func (w *Waiting) Awaits(i *source.Informer) bool { return w.rules[0].Preparer.Awaits(i) }

// release lets the rules decide their waiting changes. Those that have seen nothing learn of the
// existing objects. The informer calls it between two steps.
func (w *Waiting) release(known iter.Seq[*object.Object]) {
	in := w.in.latest()
	var unseen []int
	for _, r := range w.rules {
		r.Release()
		if i := slices.Index(in.Rules, r); i >= 0 && in.learns.unseen[i] {
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
	in.BeginCatchUp(pupils, known, nil, false)
}

// GoesOn reports whether one of the rules may still wait, and is among these rules of another plan.
func (w *Waiting) GoesOn(in []*live.Rule) bool {
	return slices.ContainsFunc(w.rules, func(r *live.Rule) bool {
		return r.IsHeld() && slices.Contains(in, r)
	})
}

// Rested waits for d, and reports whether ctx has not ended meanwhile.
func Rested(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
