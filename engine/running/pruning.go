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
)

// newPruning returns what a rule with prune does beside its deliveries, or nil if it does not prune.
// old is the rule before, or nil.
func (b *builder) newPruning(r, old *live.Rule) *live.Pruning {
	if len(r.Prune) == 0 {
		return nil
	}
	present := b.Present
	of := &orphans.Rule{
		Plan: r.Rule, ID: r.ID, Recipe: r.Preparer.Recipe, View: r.Own.View, Others: r.Preparer.Others,
		Lane:    func() orphans.Lane { return r.Lane },
		IsHeld:  func() bool { return IsHeld(present.Work(), r) },
		IsGone:  func() bool { return r.Memory.Ended() },
		Depart:  func(ctx context.Context, gone []delta.Key) map[delta.Key]bool { return present.Depart(ctx, r, gone) },
		Offer:   func(key delta.Key, done func()) bool { return b.offerPrune(r, key, done) },
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

// IsHeld reports whether a rule waits for sources, or catches up.
func IsHeld(w *Work, r *live.Rule) bool {
	if r.IsHeld() {
		return true
	}
	isHeld := false
	for _, in := range w.Intakes {
		isHeld = isHeld || slices.Contains(in.Rules, r) && in.IsCatchingUp()
	}
	return isHeld
}

// Depart has a rule learn that objects which do not exist in the cluster are deleted. It returns
// those that the rule has learned of. It leaves out objects that the informer knows: they came
// meanwhile. It works in turns between the steps of the informers. If ctx ends, or the rule changes, it
// returns early.
func (p *Present) Depart(ctx context.Context, r *live.Rule, gone []delta.Key) map[delta.Key]bool {
	departed := make(map[delta.Key]bool, len(gone))
	keys := make(map[*intake.Intake][]string)
	for _, key := range gone {
		if in, _ := p.Intakes().Of(r, key); in != nil {
			keys[in] = append(keys[in], key.String())
		}
	}
	for in, all := range keys {
		left := in.InTurns(ctx, all, func(is *intake.Intake, name string, o *object.Object) bool {
			key := delta.ParseKey(name)
			if o != nil {
				return true
			}
			departed[key] = is.Missed(r, key)
			return departed[key]
		})
		if left > 0 {
			break
		}
	}
	maps.DeleteFunc(departed, func(_ delta.Key, has bool) bool { return !has })
	return departed
}

// offerPrune has a rule prune for an object that it has spared, unless that has come back, and calls
// done in the same cut. It returns false if the rule is gone.
func (p *Parts) offerPrune(r *live.Rule, key delta.Key, done func()) bool {
	in, _ := p.Present.Intakes().Of(r, key)
	if in == nil {
		return false
	}
	in.Look(func(in *intake.Intake, _ func(string) *object.Object) {
		if p.Store != nil {
			p.Store.Pace()
		}
		defer live.Notes{Store: p.Store}.Begin()()
		if o, ok := r.Own.View.Get(key.Namespace, key.Name); !ok || !r.Preparer.Selects(o, p.Clock.Now()) {
			d := r.Pruning.Rule.Late(key)
			r.Stamp(&d)
			r.Lane.OfferActions(d)
		}
		done()
	})
	return true
}
