package engine

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/orphans"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/timing"
)

// newPruning returns what a rule with prune does beside its deliveries, or nil if it does not prune.
// old is the rule before, or nil.
func newPruning(e *Engine, r, old *live.Rule) *live.Pruning {
	if len(r.Prune) == 0 {
		return nil
	}
	of := &orphans.Rule{
		Plan: r.Rule, ID: r.ID, Recipe: r.Preparer.Recipe, View: r.Own.View, Others: r.Preparer.Others,
		Lane:    func() orphans.Lane { return r.Lane },
		IsHeld:  func() bool { return isHeld(e.work(), r) },
		IsGone:  func() bool { return r.Memory.Ended() },
		Depart:  func(ctx context.Context, gone []delta.Key) map[delta.Key]bool { return e.depart(ctx, r, gone) },
		Offer:   func(key delta.Key, done func()) bool { return e.offerPrune(r, key, done) },
		Cluster: e.acting.executor,
	}
	p := &live.Pruning{Rule: of}
	if old != nil && old.Pruning != nil {
		p.Spared = old.Pruning.Spared
	} else {
		p.Spared = orphans.Spare(of, live.Notes{Store: e.store}, e.log, e.clock)
	}
	p.Orphans = orphans.New(of, p.Spared, e.log, e.clock)
	return p
}

// notesOf returns the notes of one rule, by name.
func notesOf(rule string, notes map[noteID][]byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for id, value := range notes {
			if id.rule == rule && !yield(id.name, value) {
				return
			}
		}
	}
}

// isHeld reports whether a rule waits for sources, or catches up.
func isHeld(w *work, r *live.Rule) bool {
	if r.IsHeld() {
		return true
	}
	isHeld := false
	for _, in := range w.intakes {
		if slices.Contains(in.rules, r) {
			in.informer.Look(func(func(string) *object.Object) {
				isHeld = isHeld || in.latest().learns.isCatchingUp()
			})
		}
	}
	return isHeld
}

// depart has a rule learn that objects which do not exist in the cluster are deleted. It returns
// those that the rule has learned of. It leaves out objects that the informer knows: they came
// meanwhile. It works in turns between the steps of the informers. If ctx ends, it returns early.
func (e *Engine) depart(ctx context.Context, r *live.Rule, gone []delta.Key) map[delta.Key]bool {
	departed := make(map[delta.Key]bool, len(gone))
	for len(gone) > 0 {
		in, _ := e.intakeFor(r, gone[0])
		if in == nil { // the rule is gone
			return departed
		}
		var took time.Duration
		in.informer.Look(func(get func(string) *object.Object) {
			began := time.Now() // the lock is held from now on
			defer func() { took = time.Since(began) }()
			in := in.latest()
			i := slices.Index(in.rules, r)
			for len(gone) > 0 && i >= 0 && time.Since(began) < in.turn {
				key := gone[0]
				if other, _ := e.intakeFor(r, key); other == nil || other.informer != in.informer {
					return
				}
				gone = gone[1:]
				if get(object.FromIdentity(key.Namespace, key.Name, "", "").Key()) == nil {
					in.missed(i, key)
					departed[key] = true
				}
			}
			if i < 0 { // it has just changed
				gone = nil
			}
		})
		if len(gone) > 0 && !rested(ctx, timing.Lull*took) {
			return departed
		}
	}
	return departed
}

// missed has a rule learn that an object is deleted, of which only the name is known. It is called
// between two steps.
func (in *intake) missed(i int, key delta.Key) {
	d := in.rules[i].Pruning.Rule.Orphaned(key)
	in.record.pace()
	in.change.Reset()
	in.change.Matches = append(in.change.Matches, evaluate.Match{
		Rule: i, Match: rule.Match{Delta: d},
	})
	in.commit(&in.change, d.Object)
}

// offerPrune has a rule prune for an object that it has spared, unless that has come back, and calls
// done in the same cut. It returns false if the rule is gone.
func (e *Engine) offerPrune(r *live.Rule, key delta.Key, done func()) bool {
	in, _ := e.intakeFor(r, key)
	if in == nil {
		return false
	}
	in.informer.Look(func(func(string) *object.Object) {
		in := in.latest()
		in.record.pace()
		defer e.begin()()
		if o, ok := r.Own.View.Get(key.Namespace, key.Name); !ok || !r.Preparer.Selects(o, in.clock.Now()) {
			d := r.Pruning.Rule.Late(key)
			r.Stamp(&d)
			r.Lane.OfferActions(d)
		}
		done()
	})
	return true
}
