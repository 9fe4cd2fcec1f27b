package intake

import (
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/timing"
)

// leaving is what rules have inside in an informer that they are about to leave. It is found in
// turns, while the rules still follow the informer: an object that changes gets another turn. So
// little is left to do between the last step that the rules take and their leave.
type leaving struct {
	rules   map[int]*leaver     // by their indexes
	known   []*object.Object    // that the informer knew, and whose turn has not come
	changed map[string]struct{} // keys of objects that a step may have changed since
}

// leaver is one of the rules.
type leaver struct {
	inside map[delta.Key]*object.Object
	apart  *apart           // nil if the informer's record stays for the rule
	came   []*object.Object // objects that are still to be added to apart
	went   []delta.Key      // keys that are still to be removed from it
}

// next returns the key whose turn it is, and takes that. ok is false if none is left.
func (l *leaving) next() (key string, ok bool) {
	if len(l.known) > 0 {
		key = l.known[0].Key()
		l.known[0], l.known = nil, l.known[1:]
		return key, true
	}
	for key = range l.changed {
		delete(l.changed, key)
		return key, true
	}
	return "", false
}

// leavers yields the rules that no longer see their informer: their indexes among rules, and what
// they are now. becomes and next are as in leave.
func leavers(
	rules []*live.Rule, next *Intake, becomes func(*live.Rule) *live.Rule,
) iter.Seq2[int, *live.Rule] {
	return func(yield func(int, *live.Rule) bool) {
		for j, was := range rules {
			is := becomes(was)
			if is == nil || is.Before != was || next != nil && slices.Contains(next.Rules, is) {
				continue
			}
			if !yield(j, is) {
				return
			}
		}
	}
}

// BeginLeave notes which rules are about to leave the intake's informer. PrepareToLeave then finds
// what they have inside, and Succeed or Drop follows, with the same becomes. next is the intake
// that takes over; nil if the informer is dropped.
func (in *Intake) BeginLeave(next *Intake, becomes func(*live.Rule) *live.Rule) {
	if in.options.IsStepped {
		return
	}
	in.Informer.Visit(func(known iter.Seq[*object.Object]) {
		l := &leaving{rules: make(map[int]*leaver), changed: make(map[string]struct{})}
		for j, is := range leavers(in.Rules, next, becomes) {
			// A rule that still learns from the cut has inside what that says.
			if in.learns.resuming == nil && !in.learns.isDeaf(j) {
				l.rules[j] = in.newLeaver(is, next != nil)
			}
		}
		if len(l.rules) > 0 {
			l.known = slices.Collect(known)
			in.learns.leaving = l
		}
	})
}

// newLeaver returns a leaver without objects. staysWritten says that the informer goes on writing
// to its record, so the rule needs its own. newLeaver is called between two steps.
func (t *tutor) newLeaver(is *live.Rule, staysWritten bool) *leaver {
	of := &leaver{inside: make(map[delta.Key]*object.Object)}
	if staysWritten {
		end := t.sinks.record.begin()
		of.apart = t.newApart(is, t.ID)
		end()
	}
	return of
}

// stalled is how long PrepareToLeave tolerates that objects change as fast as it gives turns.
const stalled = time.Second

// PrepareToLeave finds in turns what the rules have inside that BeginLeave has noted. It returns
// once every object has had its turn, or when ctx ends. If objects change as fast as they get
// turns, it stops resting between turns, and if that does not help, it returns early. Succeed and
// Drop do what is left.
func (all Set) PrepareToLeave(ctx context.Context) {
	lull, least, since := timing.Lull, math.MaxInt, time.Now()
	for {
		var left int // that have changed
		var isLeft bool
		var took time.Duration
		for _, in := range all {
			known, changed, of := leaveInTurn(in.tutor)
			isLeft = isLeft || known+changed > 0
			left, took = left+changed, took+of
			if known > 0 { // there is an end to these
				least, since = math.MaxInt, time.Now()
			}
		}
		switch {
		case !isLeft:
			return
		case left < least:
			least, since = left, time.Now()
		case time.Since(since) < stalled:
		case lull == 0:
			return
		default:
			lull, since = 0, time.Now()
		}
		if !Rest(ctx, time.Duration(lull)*took) {
			return
		}
	}
}

// leaveInTurn gives objects of the informer their turns for as long as one may take. It returns how
// many are left that have not had a first turn, and that have changed since.
func leaveInTurn(t *tutor) (known, changed int, took time.Duration) {
	t.Informer.Look(func(get func(string) *object.Object) {
		l := t.learns.leaving
		if l == nil {
			return
		}
		began := time.Now()
		t.leaveSome(l, get, func() bool { return time.Since(began) < t.options.Turn })
		known, changed, took = len(l.known), len(l.changed), time.Since(began)
	})
	return known, changed, took
}

// leaveSome gives one object its turn, and others while goesOn says so. It is called between two
// steps.
func (t *tutor) leaveSome(
	l *leaving, get func(key string) *object.Object, goesOn func() bool,
) {
	for name, ok := l.next(); ok; name, ok = l.next() {
		key := delta.ParseKey(name)
		o := get(name)
		for rule, of := range l.rules {
			_, was := of.inside[key]
			var ignored evaluate.Change // its failures were reported when it came
			switch {
			case o != nil && t.evaluator.IsInside(rule, o, &ignored):
				of.inside[key] = o
				of.came = append(of.came, o)
			case was:
				delete(of.inside, key)
				of.went = append(of.went, key)
			}
		}
		t.evaluator.Forget()
		if !goesOn() {
			break
		}
	}
	t.sinks.record.pace()
	defer t.sinks.record.begin()()
	for _, of := range l.rules {
		if of.apart != nil {
			of.apart.put(slices.Values(of.came))
			of.apart.delete(of.went)
		}
		of.came, of.went = nil, nil
	}
}

// changed gives an object another turn for rules that leave, because a step may have changed it.
func (l *learning) changed(o *object.Object) {
	if l.leaving != nil {
		l.leaving.changed[o.Key()] = struct{}{}
	}
}

// leaves returns what a rule that leaves the informer has inside, and the rule's own record of
// that, or nil if it needs none. staysWritten is as in newLeaver. leaves is called between two
// steps.
func (t *tutor) leaves(
	rule int, is *live.Rule, staysWritten bool,
	known iter.Seq[*object.Object], get func(key string) *object.Object,
) (inside map[delta.Key]*object.Object, own *apart) {
	if l := t.learns.leaving; l != nil && l.rules[rule] != nil {
		t.leaveSome(l, get, func() bool { return true })
		return l.rules[rule].inside, l.rules[rule].apart
	}
	inside = make(map[delta.Key]*object.Object)
	for _, o := range t.inside(rule, known) {
		inside[delta.KeyOf(o)] = o
	}
	if staysWritten && len(inside) > 0 {
		end := t.sinks.record.begin()
		own = t.newApart(is, t.ID)
		own.put(maps.Values(inside))
		end()
	}
	return inside, own
}

// apart is a rule's own record of what it had inside in an informer that it has left, and to whose
// record another informer writes. It counts once the rule's memory says that it keeps it: a start
// drops any other.
type apart struct {
	id    string
	store *state.Store   // nil keeps nothing
	to    *state.Objects // nil, too
}

// newApart returns an empty record of a rule, for the informer with this id. It is called within a
// cut.
func (t *tutor) newApart(r *live.Rule, informer string) *apart {
	a := &apart{id: r.Memory.ApartID(informer)}
	if t.sinks.record != nil {
		a.store = t.sinks.record.store
		a.store.DropInformer(a.id) // a rule of that name that is gone may have left one
		a.to = a.store.Objects(a.id, state.ObjectsOptions{Secret: t.learns.isSecret})
	}
	return a
}

// put adds objects. It is called within a cut.
func (a *apart) put(all iter.Seq[*object.Object]) {
	if a.to == nil {
		return
	}
	for o := range all {
		a.to.Put(o, nil)
	}
}

// delete removes objects. It is called within a cut.
func (a *apart) delete(keys []delta.Key) {
	if a.to == nil {
		return
	}
	for _, key := range keys {
		a.to.Delete(key)
	}
}

// drop removes the record, which the rule does not need. It is called within a cut.
func (a *apart) drop() {
	if a != nil && a.to != nil {
		a.store.DropInformer(a.id)
	}
}

// keep records that the rule keeps the record, and returns a parting that lasts until one intake
// has ended it. It is called within a cut.
func (a *apart) keep(r *live.Rule) *parting {
	r.Memory.KeepApart(a.id)
	p := &parting{rule: r, from: &leftInformer{id: a.id}}
	p.owed.Add(1)
	p.from.owed.Add(1)
	return p
}
