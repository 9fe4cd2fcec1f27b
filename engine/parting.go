package engine

import (
	"slices"
	"sync/atomic"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/resume"
)

// parting is what a rule must learn of the objects of an informer that it has left: its source
// watched that selection when the state was saved, and watches another one now. An object that the
// rule had inside, and that its source no longer selects, is deleted for the rule, as if it had
// fallen out of the where.
//
// The rule learns from the intakes of its present informers, from each about the objects that could
// be in its informer. It does so when that has caught up, because before that an object may just
// not have been listed yet. Until the rule has learned all, the informer that it has left stays on
// disk, and the rule's record names it. So a run that ends before that leaves the rest to the next
// one.
type parting struct {
	rule *live.Rule
	from *leftInformer
	owed atomic.Int32 // intakes from which the rule has not learned all
}

// leftInformer is an informer of the cut that rules have left.
type leftInformer struct {
	id     string
	engine *Engine
	owed   atomic.Int32 // partings that have not ended
}

// isSeen reports whether a rule that satisfies by sees the informer, perhaps again.
func (l *leftInformer) isSeen(by func(*live.Rule) bool) bool {
	return slices.ContainsFunc(l.engine.work().intakes, func(in *intake) bool {
		return in.id == l.id && slices.ContainsFunc(in.rules, by)
	})
}

// isWatched reports whether any rule sees the informer, or a handler reads it.
func (l *leftInformer) isWatched() bool { return slices.Contains(l.engine.informerIDs(), l.id) }

// left is what a rule must still learn of its partings from one intake.
type left struct {
	partings []*parting
	follow.Inside
}

// newLeft returns a left without objects.
func newLeft() *left {
	return &left{Inside: follow.Inside{Objects: make(map[delta.Key]*object.Object)}}
}

// part makes the partings of all rules. It returns the informers that rules have left and that stay
// on disk for them.
func (e *Engine) part(from loaded) (owed map[string]*leftInformer) {
	owed = make(map[string]*leftInformer)
	for _, r := range e.work().rules {
		for id, verdict := range from.decision.Left(r.ID) {
			of := owed[id]
			if of == nil {
				of = &leftInformer{id: id, engine: e}
			}
			p := &parting{rule: r, from: of}
			objects := e.share(p, verdict, from)
			if objects == 0 {
				continue
			}
			e.log.Info("the rule's source had another selection when the state was saved: "+
				"what it no longer selects is deleted for the rule",
				append([]any{"rule", r.Name, "objects", objects}, resume.Selection(id)...)...)
			of.owed.Add(1)
			owed[id] = of
			r.Memory.Know(id, verdict.Where)
		}
	}
	return owed
}

// share hands the objects of a parting to the intakes from which the rule will learn of them. It
// returns the number of objects.
func (e *Engine) share(p *parting, verdict resume.Verdict, from loaded) (objects int) {
	snapshot := from.left[p.from.id]
	for _, o := range snapshot.Objects {
		key := delta.KeyOf(o)
		if !verdict.Before.Has(o, p.rule.Preparer.IsSecret(), snapshot.Inside[key]) {
			continue
		}
		objects++
		in, i := e.intakeFor(p.rule, key)
		l := in.learns.left[i]
		if l == nil {
			l = newLeft()
			in.learns.left[i] = l
		}
		l.Objects[key] = o
		if !slices.Contains(l.partings, p) {
			l.partings = append(l.partings, p)
			p.owed.Add(1)
		}
	}
	return objects
}

// intakeFor returns the intake of a rule whose informer watches the key's namespace, or any other
// one if none does, and the rule's index there.
func (e *Engine) intakeFor(r *live.Rule, key delta.Key) (found *intake, rule int) {
	for _, in := range e.work().intakes {
		i := slices.Index(in.rules, r)
		if i < 0 {
			continue
		}
		of := in.informer.Selection().Namespace
		if found == nil || of == "" || of == key.Namespace {
			found, rule = in, i
		}
		if of == "" || of == key.Namespace {
			break
		}
	}
	return found, rule
}

// begin records that a rule begins to learn of the partings. It is called within a cut.
func (l *left) begin() {
	if l == nil {
		return
	}
	for _, p := range l.partings {
		p.rule.Memory.Leave(p.from.id)
	}
}

// parted ends an intake's part of a rule's partings. It is called within the cut that records what
// the rule has learned.
func (in *intake) parted(i int) {
	l := in.learns.left[i]
	if l == nil {
		return
	}
	delete(in.learns.left, i)
	for _, p := range l.partings {
		if p.owed.Add(-1) > 0 {
			continue
		}
		is := func(r *live.Rule) bool { return r.ID == p.rule.ID }
		if !p.from.isSeen(is) {
			p.rule.Memory.Forget(p.from.id)
		}
		if p.from.owed.Add(-1) == 0 && !p.from.isWatched() && in.record != nil {
			in.record.store.DropInformer(p.from.id)
		}
	}
}
