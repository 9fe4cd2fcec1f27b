package running

import (
	"context"
	"maps"
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/orphans"
	"github.com/informd/informd/engine/targets"
)

// newPruning returns what a rule with prune does beside its deliveries, or nil if it does not
// prune. old is the rule before, or nil.
func (b *builder) newPruning(r, old *live.Rule) *live.Pruning {
	if r.Actions == nil || !r.Actions.Prune {
		return nil
	}
	present := b.Present
	of := &orphans.Rule{
		Plan: r.Rule, ID: r.ID, Recipe: r.Preparer.Recipe,
		View: r.OwnSource.View, Others: r.Preparer.Others,
		Lane:   func() orphans.Lane { return r.Lane },
		IsHeld: func() bool { return isHeld(present.Work(), r) },
		IsGone: func() bool { return r.Memory.Ended() },
		Depart: func(ctx context.Context, gone []delta.Key) map[delta.Key]bool {
			return present.depart(ctx, r, gone)
		},
		Offer: func(key delta.Key, done func()) bool { return b.offerPrune(r, key, done) },
		Claim: func(of delta.Key, at targets.Target, hasActed func() bool) bool {
			defer live.Notes{Store: b.Store}.Begin()()
			if _, isOwned := b.Targets.Owner(at); isOwned || !r.Owns() || r.Memory.Ended() {
				return true
			}
			asker := targets.Asker{Rule: r.ID, Key: of}
			if !b.Targets.Put(asker, at, false) {
				return false
			}
			if hasActed() {
				b.Heirs.Add([]targets.Claim{{Asker: asker}})
			}
			return true
		},
		IsWhole: func() {
			defer live.Notes{Store: b.Store}.Begin()()
			if r.Owns() && !r.Memory.Ended() {
				b.Targets.SetWhole(r.ID, r.Preparer.Whole())
			}
		},
		Cluster: b.Acting,
	}
	p := &live.Pruning{Rule: of}
	if old != nil && old.Pruning != nil {
		p.Spared = old.Pruning.Spared
	} else {
		p.Spared = orphans.Spare(of, live.Notes{Store: b.Store}, b.Logger, b.Clock)
	}
	p.Orphans = orphans.New(of, p.Spared, b.Logger, b.Clock)
	return p
}

// isHeld reports whether a rule waits for sources, or catches up.
func isHeld(w *Work, r *live.Rule) bool {
	if r.IsHeld() {
		return true
	}
	isHeld := false
	for _, in := range w.Intakes {
		isHeld = isHeld || slices.Contains(in.Rules, r) && in.IsCatchingUp()
	}
	return isHeld
}

// depart has a rule learn that objects which do not exist in the cluster are deleted. It returns
// those that the rule has learned of. It leaves out objects that the informer knows: they came
// meanwhile. It works in turns between the steps of the informers. If ctx ends, or the rule
// changes, it returns early.
func (p *Present) depart(ctx context.Context, r *live.Rule, gone []delta.Key) map[delta.Key]bool {
	departed := make(map[delta.Key]bool, len(gone))
	keys := make(map[*intake.Intake][]string)
	for _, key := range gone {
		if in, _ := p.Intakes().For(r, key); in != nil {
			keys[in] = append(keys[in], key.String())
		}
	}
	for in, all := range keys {
		left := in.InTurns(ctx, all, func(is *intake.Intake, name string, o *object.Object) bool {
			key := delta.ParseKey(name)
			if o != nil {
				return true
			}
			departed[key] = is.LearnDeleted(r, key)
			return departed[key]
		})
		if left > 0 {
			break
		}
	}
	maps.DeleteFunc(departed, func(_ delta.Key, has bool) bool { return !has })
	return departed
}

// offerPrune has a rule prune for an object that it has spared, unless that has come back, and
// calls done in the same cut. It returns false if the rule is gone.
func (p *Parts) offerPrune(r *live.Rule, key delta.Key, done func()) bool {
	in, _ := p.Present.Intakes().For(r, key)
	if in == nil {
		return false
	}
	in.Look(func(in *intake.Intake, _ func(string) *object.Object) {
		if p.Store != nil {
			p.Store.Pace()
		}
		defer live.Notes{Store: p.Store}.Begin()()
		o, ok := r.OwnSource.View.Get(key.Namespace, key.Name)
		if !ok || !r.Preparer.Selects(o, p.Clock.Now()) {
			d := r.Pruning.Rule.Late(key)
			r.Stamp(&d)
			r.Lane.OfferActions(d)
		}
		done()
	})
	return true
}
