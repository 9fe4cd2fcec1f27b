package engine

import (
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/source"
)

// saved is what was saved of an informer, while it is followed up.
type saved struct {
	objects map[delta.Key]*object.Object
	inside  map[delta.Key][]string // of secrets
	// before is, for each rule that saw the informer when this was saved, what its where was then.
	before map[*runningRule]where
	// changed are the rules whose where is another, if whole objects were saved: they are told at once what the difference makes
	// of those. See tellChanged.
	changed map[*runningRule]bool
	// late are the rules that are new here, and those whose where is another, if parts were saved. They hear of changes only
	// when the informer has caught up: then they are told what the difference makes, once.
	late map[*runningRule]bool
	// holds says that what was saved of objects stays on disk as it is until that is recorded, for another run would need it to
	// the same end: one of the late rules has seen it. What is new is recorded at once, so that the others hear of its end; and of
	// secrets everything but deletions, for beside them there is written what rules were inside of.
	holds bool
	// holdsVersion says that the resourceVersion stays, too: it would tell that all that is on disk is as it is to be kept now.
	holdsVersion bool
	held         held
	// round tells what is told as Synced now from when it was told before. It is the same in another run that has to tell it.
	round int64
}

// held is what is not recorded yet: the newest of each object, nil if that is gone, and of the resourceVersion.
type held struct {
	objects map[delta.Key]*object.Object
	version *string
}

// where is a membership.
type where struct {
	program *expr.Program // nil: every object
}

// roundOf makes a round of a resourceVersion.
func roundOf(version string) int64 {
	if n, err := strconv.ParseInt(version, 10, 64); err == nil && n > 0 {
		return n
	}
	return 1
}

func whereOf(text string) (where, error) {
	if text == "" {
		return where{}, nil
	}
	program, err := expr.Compile(text, expr.Options{Scope: expr.Where})
	return where{program}, err
}

// was tells whether a rule had an object of which o was saved inside.
func (s *saved) was(r *runningRule, o *object.Object, secret bool) bool {
	before, seen := s.before[r]
	switch {
	case !seen:
		return false
	case before.program == nil:
		return true
	case secret:
		return slices.Contains(s.inside[delta.Delta{Object: o}.Key()], r.Name)
	}
	in, _ := before.program.Bool(&expr.Env{Object: o.Decode(before.program.Paths())})
	return in
}

// isLate tells whether a rule does not hear of changes yet.
func (r *record) isLate(rule *runningRule) bool {
	return r != nil && r.saved != nil && r.saved.late[rule]
}

// follows tells whether what was saved has not been followed up: what is known of the informer's objects may be old, or a part.
func (r *record) follows() bool { return r != nil && r.saved != nil }

// isPart tells whether an object is known from what was saved only, and of that a part was saved.
func (r *record) isPart(o *object.Object) bool {
	return r != nil && r.saved != nil && r.saved.objects != nil && r.saved.objects[delta.Delta{Object: o}.Key()] == o
}

// Complete implements source.Record. Rules that are late are told what is different for them.
func (r *record) Complete(known iter.Seq[*object.Object]) {
	s := r.saved
	if s == nil {
		s = new(saved)
	}
	if len(s.late) > 0 {
		r.tellLate(s, known)
	}
	r.saved = nil
	r.Store.Begin()
	defer r.End()
	r.recordHeld(s.held)
	for _, rule := range r.rules {
		rule.caughtUp(r)
	}
	for rule := range s.late {
		rule.saw(r)
	}
}

// tellChanged tells each rule whose where is another of what was saved and is inside now, as Synced, and of what is not any more,
// as Deleted, and has it hear of changes from then on. It is called before any change. All that is offered undecided, and waits
// until release: by then it is merged with what has changed since.
func (r *record) tellChanged() {
	s := r.saved
	step, end := r.steps()
	step()
	for _, e := range r.evaluators {
		for _, o := range r.whole {
			for _, rule := range e.rules {
				if s.changed[rule] {
					e.look.rule = rule
					rule.compare(s, o, o, false, &e.look)
				}
			}
			e.look.forget()
			step()
		}
	}
	for rule := range s.changed {
		rule.saw(r)
	}
	end()
	r.whole = nil
}

// release, once the informer is settled, has these rules decide what waits for that.
func (r *record) release(ctx context.Context, changed map[*runningRule]bool) {
	if source.WaitUntilSettled(ctx, r.source) {
		for rule := range changed {
			rule.goOn()
		}
	}
}

// chunk is how many objects rules that are late are told of at a time.
const chunk = 500

// tellLate tells each rule that is late of what is inside, as Synced, and of what fell out, as Deleted.
func (r *record) tellLate(s *saved, known iter.Seq[*object.Object]) {
	pause, end := r.steps()
	pause()
	defer end()
	for _, e := range r.evaluators {
		for o := range known {
			before := s.objects[delta.Delta{Object: o}.Key()]
			if before != nil && before.UID() != o.UID() {
				e.late(s, func(rule *runningRule) { rule.fellOut(s, before, r.secret, &e.look) })
				before = nil
			}
			e.late(s, func(rule *runningRule) { rule.compare(s, before, o, r.secret, &e.look) })
			e.look.forget()
			pause()
		}
	}
	there := make(map[delta.Key]bool)
	for o := range known {
		there[delta.Delta{Object: o}.Key()] = true
	}
	for _, e := range r.evaluators {
		for key, before := range s.objects {
			if !there[key] {
				e.late(s, func(rule *runningRule) { rule.fellOut(s, before, r.secret, &e.look) })
				e.look.forget()
				pause()
			}
		}
	}
}

// steps makes one change of the state of so many at a time: step begins the first, and ends one and begins the next now and
// then; end ends the last. A nil record has no state.
func (r *record) steps() (step, end func()) {
	if r == nil {
		return func() {}, func() {}
	}
	told := 0
	step = func() {
		switch {
		case told == 0:
			r.Store.Begin()
		case told%chunk == 0:
			r.End()
			r.Begin()
		}
		told++
	}
	return step, func() { r.End() }
}

// late calls f for each rule that is late.
func (e *evaluator) late(s *saved, f func(*runningRule)) {
	for _, r := range e.rules {
		if s.late[r] {
			e.look.rule = r
			f(r)
		}
	}
}

// compare tells the rule of an object that there was when the state was saved, as before, or was not, and now is o.
func (r *runningRule) compare(s *saved, before, o *object.Object, secret bool, look *lookup) {
	was := before != nil && s.was(r, before, secret)
	switch {
	case r.isInside(o, look):
		round := int64(0) // as at first sight
		if was {
			round = s.round
		}
		r.onDelta(delta.Delta{Type: delta.Synced, Object: o, Round: round}, look)
	case was:
		r.onDeparture(before, secret, look)
	}
}

// fellOut tells the rule of an object that is gone, if it was inside.
func (r *runningRule) fellOut(s *saved, before *object.Object, secret bool, look *lookup) {
	if s.was(r, before, secret) {
		r.onDeparture(before, secret, look)
	}
}

// onReturn implements source.Listener.
func (e *evaluator) onReturn(o, before *object.Object, tree any) {
	s := e.record.saved
	if tree != nil {
		e.look.decoder.Remember(o, tree)
	}
	defer e.look.forget()
	for _, r := range e.rules {
		if e.look.rule = r; !s.late[r] && !e.wait.hides(r) && o.ResourceVersion() != before.ResourceVersion() {
			r.compare(s, before, o, e.record.secret, &e.look)
		}
	}
}

// onEnd tells of the deletion of an object of which only a part was saved.
func (e *evaluator) onEnd(part *object.Object) {
	defer e.look.forget()
	for _, r := range e.rules {
		if e.look.rule = r; !e.record.saved.late[r] && !e.wait.hides(r) {
			r.fellOut(e.record.saved, part, e.record.secret, &e.look)
		}
	}
}
