package engine

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/orphans"
	"github.com/informd/informd/engine/rule"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/timing"
)

// pruning is what a rule with prune does beside its deliveries: see package orphans.
type pruning struct {
	rule    *orphans.Rule
	orphans *orphans.Orphans
	spared  *orphans.Spared
	end     func() // ends what runs of it; nil before that
}

// newPruning returns what a rule with prune does beside its deliveries, or nil if it does not prune.
// old is the rule before, or nil.
func newPruning(e *Engine, r, old *runningRule) *pruning {
	if len(r.Prune) == 0 {
		return nil
	}
	of := &orphans.Rule{
		Plan: r.Rule, ID: r.id, Recipe: r.preparer.Recipe, View: r.view, Others: r.others,
		Lane:    func() orphans.Lane { return r.lane },
		IsHeld:  func() bool { return isHeld(e.work(), r) },
		IsGone:  func() bool { return r.memory.ended() },
		Depart:  func(ctx context.Context, gone []delta.Key) map[delta.Key]bool { return e.depart(ctx, r, gone) },
		Offer:   func(key delta.Key, done func()) bool { return e.offerPrune(r, key, done) },
		Cluster: e.acting.executor,
	}
	p := &pruning{rule: of}
	if old != nil && old.pruning != nil {
		p.spared = old.pruning.spared
	} else {
		p.spared = orphans.Spare(of, notes{e.store}, e.log, e.clock)
	}
	p.orphans = orphans.New(of, p.spared, e.log, e.clock)
	return p
}

// notes writes to a store that is nil if nothing is kept. It implements orphans.Notes.
type notes struct{ store *state.Store }

func (n notes) Begin() (end func()) {
	if n.store == nil {
		return func() {}
	}
	n.store.Begin()
	return n.store.End
}

func (n notes) Put(rule, name string, value []byte) {
	if n.store != nil {
		n.store.PutNote(state.Note{Rule: rule, Name: name, Value: value})
	}
}

func (n notes) Delete(rule, name string) {
	if n.store != nil {
		n.store.DeleteNote(rule, name)
	}
}

// start starts what a rule with prune does beside its deliveries. The receiver may be nil.
func (p *pruning) start(t *tasks) {
	if p == nil || p.end != nil {
		return
	}
	look, late := t.start(p.orphans.Run), t.start(p.spared.Run)
	p.end = func() {
		look()
		late()
	}
}

// stop ends what start has started. The receiver may be nil.
func (p *pruning) stop() {
	if p != nil && p.end != nil {
		p.end()
	}
}

// spares returns what the rule spares; nil if it does not prune.
func (p *pruning) spares() *orphans.Spared {
	if p == nil {
		return nil
	}
	return p.spared
}

// reason says what a rule prunes later, or leaves in place, or returns "".
func (p *pruning) reason() string {
	if p == nil {
		return ""
	}
	if reason := p.spared.Reason(); reason != "" {
		return reason
	}
	return p.orphans.Reason()
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
func isHeld(w *work, r *runningRule) bool {
	if r.waits.Load() > 0 {
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
func (e *Engine) depart(ctx context.Context, r *runningRule, gone []delta.Key) map[delta.Key]bool {
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
	d := in.rules[i].pruning.rule.Orphaned(key)
	in.record.pace()
	in.change.Reset()
	in.change.Matches = append(in.change.Matches, evaluate.Match{
		Rule: i, Match: rule.Match{Delta: d},
	})
	in.commit(&in.change, d.Object)
}

// offerPrune has a rule prune for an object that it has spared, unless that has come back, and calls
// done in the same cut. It returns false if the rule is gone.
func (e *Engine) offerPrune(r *runningRule, key delta.Key, done func()) bool {
	in, _ := e.intakeFor(r, key)
	if in == nil {
		return false
	}
	in.informer.Look(func(func(string) *object.Object) {
		in := in.latest()
		in.record.pace()
		defer e.begin()()
		if o, ok := r.view.Get(key.Namespace, key.Name); !ok || !r.preparer.Selects(o, in.clock.Now()) {
			d := r.pruning.rule.Late(key)
			r.stamp(&d)
			r.lane.OfferActions(d)
		}
		done()
	})
	return true
}
