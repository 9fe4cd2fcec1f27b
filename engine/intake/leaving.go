package intake

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/state"
	"github.com/informd/informd/engine/timing"
)

// leaving is what a rule has inside in an informer that it is about to leave. It is found in turns,
// while the rule still follows the informer: an object that changes gets another turn. So little
// is left to do between the last step that the rule takes and its leave.
type leaving struct {
	known   []*object.Object    // that the informer knew, and whose turn has not come
	changed map[string]struct{} // keys of objects that a step may have changed since
	inside  map[delta.Key]*object.Object
	apart   *apart // nil if the informer's record stays for the rule
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

// PrepareToLeave finds in turns what rules have inside that are about to leave the intake's
// informer. Succeed or Drop follows, with the same becomes, and does what is left once ctx has
// ended. next is the intake that takes over; nil if the informer is dropped.
func (in *Intake) PrepareToLeave(
	ctx context.Context, next *Intake, becomes func(*live.Rule) *live.Rule,
) {
	if in.options.IsStepped {
		return
	}
	in.Informer.Visit(func(known iter.Seq[*object.Object]) {
		for j, is := range leavers(in.Rules, next, becomes) {
			// A rule that still learns from the cut has inside what that says.
			if in.learns.resuming == nil && !in.learns.isDeaf(j) {
				in.learns.leaving[j] = in.beginLeaving(is, next != nil, known)
			}
		}
	})
	for goesOn := true; goesOn; {
		var took time.Duration
		goesOn = false
		in.Informer.Look(func(get func(string) *object.Object) {
			began := time.Now()
			isInTurn := func() bool { return time.Since(began) < in.options.Turn }
			for j, l := range in.learns.leaving {
				if more := in.leaveSome(l, j, get, isInTurn); more {
					goesOn = true
				}
			}
			took = time.Since(began)
		})
		goesOn = goesOn && Rest(ctx, timing.Lull*took)
	}
}

// beginLeaving returns a leaving in which all known objects are to have their turns. It is called
// between two steps.
func (t *tutor) beginLeaving(
	is *live.Rule, staysWritten bool, known iter.Seq[*object.Object],
) *leaving {
	l := &leaving{
		known: slices.Collect(known), changed: make(map[string]struct{}),
		inside: make(map[delta.Key]*object.Object),
	}
	if staysWritten {
		end := t.sinks.record.begin()
		l.apart = t.newApart(is, t.ID)
		end()
	}
	return l
}

// leaveSome gives one object its turn, and others while goesOn says so. It reports whether any are
// left. rule is the index of the rule that leaves. It is called between two steps.
func (t *tutor) leaveSome(
	l *leaving, rule int, get func(key string) *object.Object, goesOn func() bool,
) (more bool) {
	var came []*object.Object
	var went []delta.Key
	for name, ok := l.next(); ok; name, ok = l.next() {
		key := delta.ParseKey(name)
		o := get(name)
		_, was := l.inside[key]
		switch {
		case o != nil && t.IsInside(rule, o):
			l.inside[key] = o
			came = append(came, o)
		case was:
			delete(l.inside, key)
			went = append(went, key)
		}
		if !goesOn() {
			break
		}
	}
	if l.apart != nil && len(came)+len(went) > 0 {
		t.sinks.record.pace()
		end := t.sinks.record.begin()
		l.apart.put(slices.Values(came))
		l.apart.delete(went)
		end()
	}
	return len(l.known)+len(l.changed) > 0
}

// changed gives an object, which a step may have changed for rules that leave, another turn.
func (l *learning) changed(o *object.Object) {
	for _, of := range l.leaving {
		of.changed[o.Key()] = struct{}{}
	}
}

// leaves returns what a rule has inside that leaves the informer, and for a rule that needs one,
// its own record of that. It is called between two steps.
func (t *tutor) leaves(
	rule int, is *live.Rule, staysWritten bool,
	known iter.Seq[*object.Object], get func(key string) *object.Object,
) (inside map[delta.Key]*object.Object, own *apart) {
	if l := t.learns.leaving[rule]; l != nil {
		t.leaveSome(l, rule, get, func() bool { return true })
		return l.inside, l.apart
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
