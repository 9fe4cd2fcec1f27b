package engine

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/object"
)

// telling tells rules of an intake that came while it was at work what the informer has: new rules
// what they have inside, changed ones the difference. The informer has it told a turn at a time,
// between the steps that other rules see. Until an object has been told, its steps are told in the
// same way, as a difference to what the rule knew before.
//
// A nil telling has nothing to tell.
type telling struct {
	rules []newcomer
	keys  []string            // of the objects that the informer had, in the order in which they are told
	done  map[string]struct{} // keys of objects that are told, and of those that came since
	isNow bool                // the step at hand is of an object that is owed
}

// newcomer is a rule that is being told.
type newcomer struct {
	rule int
	// before is the intake that knows which objects the rule had inside, and as which rule there;
	// nil if it had none, apart from those of informers that it has left.
	before *intake
	was    int
}

// owes reports whether the object of a step has not been told.
func (in *intake) owes(d delta.Delta) bool {
	t := in.telling
	if t == nil {
		return false
	}
	key := d.Object.Key()
	if _, isDone := t.done[key]; isDone {
		return false
	}
	if d.Type == delta.Added && !in.hasLeft(d.Key()) { // it was not there when the telling began
		t.done[key] = struct{}{}
		return false
	}
	return true
}

// hasLeft reports whether a newcomer had an object inside in an informer that it has left.
func (in *intake) hasLeft(key delta.Key) bool {
	return slices.ContainsFunc(in.telling.rules, func(n newcomer) bool {
		l := in.left[n.rule]
		return l != nil && l.objects[key] != nil
	})
}

// tells reports whether a rule is being told.
func (t *telling) tells(i int) bool {
	return t != nil && slices.ContainsFunc(t.rules, func(n newcomer) bool { return n.rule == i })
}

// isOwed reports whether a rule does not hear of the step at hand, because its object is owed to it.
func (t *telling) isOwed(i int) bool {
	return t.tells(i) && t.isNow
}

// tellNewcomers begins to tell rules what the informer has.
func (in *intake) tellNewcomers(rules []newcomer, known iter.Seq[*object.Object]) {
	t := &telling{rules: rules, done: make(map[string]struct{})}
	for o := range known { // the informer waits for this
		t.keys = append(t.keys, o.Key())
	}
	in.telling = t
}

// tellStep adds to c what a step does whose object is owed.
func (in *intake) tellStep(s evaluate.Step, c *evaluate.Change) {
	t := in.telling
	t.isNow = true
	in.evaluator.Evaluate(s, c) // for the others
	t.isNow = false
	if s.Round != nil {
		return
	}
	t.done[s.Delta.Object.Key()] = struct{}{}
	last := s.Delta.Object
	if s.Delta.Old != nil {
		last = s.Delta.Old
	}
	for _, n := range t.rules {
		before := in.knew(n, last)
		if s.Delta.Type != delta.Deleted {
			in.differ(n.rule, before, s, c)
			continue
		}
		in.evaluator.Unwait(n.rule, s.Delta.Object, c)
		if before.Inside {
			in.evaluator.Depart(n.rule, s.Delta.Object, s.Now, false, c)
		}
	}
	in.evaluator.Forget()
}

// knew returns an object as a newcomer knew it before, and forgets that.
func (in *intake) knew(n newcomer, last *object.Object) (before evaluate.Before) {
	if l := in.left[n.rule]; l != nil {
		key := keyOf(last)
		if o := l.objects[key]; o != nil {
			delete(l.objects, key)
			return evaluate.Before{Object: o, Inside: true}
		}
	}
	if n.before == nil {
		return evaluate.Before{}
	}
	defer n.before.evaluator.Forget()
	var reported evaluate.Change // its failures were reported when it was told
	return evaluate.Before{Object: last, Inside: n.before.evaluator.IsInside(n.was, last, &reported)}
}

// tellSome tells newcomers of some objects, and returns when to go on; the zero time means that all
// is told.
func (in *intake) tellSome(began time.Time, get func(key string) *object.Object) (again time.Time) {
	t := in.telling
	for len(t.keys) > 0 {
		if now := in.clock.Now(); now.Sub(began) > turn {
			return now.Add(lull * now.Sub(began))
		}
		key := t.keys[0]
		t.keys = t.keys[1:]
		o := get(key)
		if _, isDone := t.done[key]; isDone || o == nil {
			continue
		}
		t.done[key] = struct{}{}
		in.tell(o, func(s evaluate.Step, c *evaluate.Change) {
			for _, n := range t.rules {
				in.differ(n.rule, in.knew(n, o), s, c)
			}
			if in.isSecret() { // who has it inside stands beside its record
				in.note(s.Delta, c)
			}
		})
	}
	in.told(get)
	return time.Time{}
}

// told ends the telling. What is left of informers that rules have left, this one does not have.
func (in *intake) told(get func(key string) *object.Object) {
	t := in.telling
	in.telling = nil
	for _, n := range t.rules {
		l := in.left[n.rule]
		if l == nil {
			continue
		}
		for _, last := range slices.SortedFunc(maps.Values(l.objects), byKey) {
			if get(last.Key()) != nil {
				continue
			}
			in.tell(last, func(s evaluate.Step, c *evaluate.Change) {
				in.evaluator.Depart(n.rule, last, s.Now, in.isSecret(), c)
			})
		}
	}
	defer in.record.begin()()
	for _, n := range t.rules {
		in.rules[n.rule].memory.see(in.id)
		in.parted(n.rule)
	}
}
