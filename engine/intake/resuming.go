package intake

import (
	"iter"
	"maps"
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
)

// resuming is what an intake knows of the cut that it resumes from, until its informer has caught
// up with the server, and its late rules with the informer. It carries out the decision of
// [resume.Decide]. A nil resuming has nothing left to do. resuming has many fields because rules,
// objects and what is held back meet here.
//
// Rules that are New or Changed catch up, in one of two ways:
//
//   - changed rules follow the informer from the first step on, if the cut holds whole objects. What
//     they have not learned by a step of the object, they learn in turns once the informer has settled.
//     Until then their lanes hold what they learn undecided, merged with later changes.
//   - late rules catch up once the informer has: see catchUp. New rules are late, and so are Changed
//     rules if the cut holds only parts of objects. If the cut has nothing of the informer, only
//     rules that have left another one are late; the others see all objects as they come.
type resuming struct {
	verdicts map[int]resume.Verdict // by rule
	late     map[int]bool
	isSecret bool
	isNew    bool // the cut has nothing of the informer

	// parts are the objects in the cut, if the cut holds only parts of them. For Secrets, inside
	// names the rules that had them inside.
	parts  map[delta.Key]*object.Object
	inside map[delta.Key][]string

	// holds says that the objects in the cut stay on disk until late rules have seen the
	// difference. If this run ends before that, another run needs these objects to report the same
	// difference. New objects are recorded at once. So are all changes of Secrets except deletions,
	// because the names of the rules that have them inside are recorded beside them. holdsPosition
	// holds back the resourceVersion in the same way. A recorded resourceVersion would claim that
	// all objects on disk are complete.
	holds, holdsPosition bool
	heldObjects          map[delta.Key]*object.Object // newest states; nil: gone
	heldPosition         *string
}

// Resume makes the informer resume from its snapshot, as decided. It is called before any step, and
// needs a record.
func (t *tutor) Resume(snapshot state.Snapshot, decision resume.Decision) {
	if !t.sinks.record.store.IsNew() {
		for _, r := range t.Rules {
			r.Memory.BeginCatchUp()
		}
	}
	isNew := len(snapshot.Objects) == 0 && !snapshot.HasFollowed
	if isNew && len(t.learns.left) == 0 {
		return
	}
	isWhole := resume.Covers(snapshot.Kept, t.sinks.record.keep)
	isPartial := t.sinks.record.isSecret || !isWhole
	p := &resuming{
		verdicts: make(map[int]resume.Verdict),
		late:     make(map[int]bool),
		isSecret: t.sinks.record.isSecret, isNew: isNew,
		inside: snapshot.Inside, heldObjects: make(map[delta.Key]*object.Object),
	}
	var changed []follow.Pupil
	for i, r := range t.Rules {
		v := decision.At(r.ID, t.ID)
		if t.learns.unseen[i] && (isNew || !v.Recorded) {
			continue // release makes it late when the other sources have settled
		}
		if isNew {
			p.late[i] = t.learns.left[i] != nil
			continue
		}
		delete(t.learns.unseen, i)
		p.verdicts[i] = v
		if v.Recorded {
			r.Memory.Know(t.ID, v.Where)
		}
		switch {
		case v.Standing == resume.New:
			p.late[i] = true
		case v.Standing == resume.Known:
		case isPartial:
			p.late[i], p.holds, p.holdsPosition = true, true, !isWhole
		default:
			has := func(o *object.Object) bool {
				return v.Before.Has(o, false, snapshot.Inside[delta.KeyOf(o)])
			}
			changed = append(changed, follow.Pupil{Rule: i, Knew: follow.Now{Has: has}})
		}
	}
	t.beginFollowing(changed, snapshot.Objects)
	if isPartial {
		p.parts = make(map[delta.Key]*object.Object, len(snapshot.Objects))
		for _, o := range snapshot.Objects {
			p.parts[delta.KeyOf(o)] = o
		}
	}
	t.learns.resuming = p
	if isNew {
		return
	}
	t.sinks.waits.Restore(snapshot.Objects, snapshot.Inside, p.known(t.Rules), t.options.Clock.Now())
	t.Informer.Restore(source.Saved{
		Objects: snapshot.Objects, ResourceVersion: snapshot.ResourceVersion,
		HasFollowed: snapshot.HasFollowed, Partial: isPartial, Follow: t.sinks.record.isSecret,
	})
}

// Saved loads what the state has of the informer. It needs a record.
func (t *tutor) Saved() (state.Snapshot, error) { return t.sinks.record.informer.Load() }

// NoteResumed records which rules see the informer, or begin to. It is called within a cut, after
// everything that rules have seen was loaded.
func (t *tutor) NoteResumed() {
	for _, u := range t.learns.catchUps {
		for _, p := range u.Pupils {
			t.Rules[p.Rule].Memory.CatchUp(t.ID)
		}
	}
	if t.learns.resuming != nil && !t.learns.resuming.isNew {
		return
	}
	for i, r := range t.Rules {
		// otherwise release or CaughtUp records it
		if !t.learns.isDeaf(i) {
			r.Memory.See(t.ID)
		}
	}
}

// known returns the positions of the rules that are known, by ID.
func (p *resuming) known(rules []*live.Rule) map[string]int {
	byID := make(map[string]int, len(rules))
	for i, r := range rules {
		if p.verdicts[i].Standing == resume.Known {
			byID[r.ID] = i
		}
	}
	return byID
}

// isLate reports whether a rule does not see steps yet.
func (p *resuming) isLate(i int) bool { return p != nil && p.late[i] }

// isPart reports whether the delta deletes an object of which the intake knows only the part in the
// cut.
func (p *resuming) isPart(d delta.Delta) bool {
	return p != nil && p.parts != nil && d.Type == delta.Deleted && p.hasPart(d.Object)
}

// hasPart reports whether the cut has only a part of an object, and o is that part.
func (p *resuming) hasPart(o *object.Object) bool {
	return p != nil && o != nil && p.parts[delta.KeyOf(o)] == o
}

// before returns an object of the cut, and whether a rule had it inside. o may be nil.
func (p *resuming) before(i int, o *object.Object) evaluate.Before {
	if o == nil {
		return evaluate.Before{}
	}
	inside := p.verdicts[i].Before.Has(o, p.isSecret, p.inside[delta.KeyOf(o)])
	return evaluate.Before{Object: o, Inside: inside}
}

// inside returns the objects that a rule had inside, as it saw them last. known are those that the
// informer has.
func (t *tutor) inside(i int, known iter.Seq[*object.Object]) (inside []*object.Object) {
	p := t.learns.resuming
	switch {
	case t.learns.unseen[i]:
		return nil
	case p.isLate(i): // it has seen what the cut has
		known = maps.Values(p.parts)
	}
	for o := range known {
		var has bool
		if p.hasPart(o) {
			has = p.before(i, o).Inside
		} else {
			has = t.IsInside(i, o)
		}
		if has {
			inside = append(inside, o)
		}
	}
	return inside
}

// hold keeps an object's new state if late rules must see the difference. It reports whether the
// state must not be recorded before that. A Secret's is recorded at once, and then once more.
func (p *resuming) hold(key delta.Key, o *object.Object, isSecret bool) bool {
	if p == nil || !p.holds || !isSecret && p.parts[key] == nil {
		return false
	}
	p.heldObjects[key] = o
	return !isSecret
}

// drop reports whether an object's deletion must not be recorded yet. It then keeps the deletion.
func (p *resuming) drop(key delta.Key) bool {
	switch {
	case p == nil:
		return false
	case p.holds && p.parts[key] != nil:
		p.heldObjects[key] = nil
		return true
	}
	delete(p.heldObjects, key)
	return false
}

// positionAfter returns the position to record after a step, and whether there is any. While the
// position is held, the one on disk stays. For Secrets it is withdrawn instead: their new states
// are recorded at once, and a run that resumed before them would deliver older ones.
func (p *resuming) positionAfter(step string) (position string, ok bool) {
	if p == nil || !p.holdsPosition {
		return step, true
	}
	p.heldPosition = &step
	return "", p.isSecret
}

// lastOf adds to c the deletion of an object of which the intake knows only the part in the cut.
func (t *tutor) lastOf(s evaluate.Step, c *evaluate.Change) {
	last := s.Delta.Object
	for i := range t.Rules {
		if t.standing(i).Deaf {
			continue
		}
		t.evaluator.Unwait(i, last, c)
		if t.learns.resuming.before(i, last).Inside {
			t.evaluator.Depart(i, last, s.Now, t.learns.resuming.isSecret, c)
		}
	}
	t.evaluator.Forget()
}

// returned adds to c what rules see of an object that came back whole, and of which the cut holds
// only a part. A rule sees nothing if the object has not changed since the rule last saw it.
func (t *tutor) returned(s evaluate.Step, part *object.Object, c *evaluate.Change) {
	isSame := s.Delta.Object.ResourceVersion() == part.ResourceVersion()
	names := t.learns.resuming.inside[delta.KeyOf(part)]
	t.evaluator.Remember(s.Delta.Object, s.Tree)
	for i := range t.Rules {
		if isSame && !t.learns.resuming.verdicts[i].Before.HasMissed(names) || t.standing(i).Deaf {
			continue
		}
		before := t.learns.resuming.before(i, part)
		t.evaluator.Compare(i, before, s, t.learns.isSecret, c)
	}
	t.evaluator.Forget()
}

// CaughtUp implements source.Consumer. Late rules begin to catch up. What was held back for them is
// recorded when they have.
func (t *tutor) CaughtUp(known iter.Seq[*object.Object]) {
	t.learns.caughtUp = true
	t.sinks.gauges.CaughtUp(known)
	if t.options.IsStepped { // otherwise Tick gives the turns, once nothing is held any more
		isHeld := func(u *catchUp) bool { return len(u.held) > 0 }
		t.catchUpAll(known, slices.DeleteFunc(slices.Clone(t.learns.catchUps), isHeld)...)
	}
	p := t.learns.resuming
	late := func(i int) bool { return p.isLate(i) }
	departs := func(i int) bool { return t.learns.left[i] != nil && !t.learns.unseen[i] && !late(i) }
	var pupils []follow.Pupil
	var knew []string
	var held []evaluate.Change
	if p != nil {
		if pupils = t.learns.pupils(); len(pupils) == 0 {
			t.learns.resuming = nil
			held = t.held(p)
		}
		for key := range p.parts {
			knew = append(knew, key.String())
		}
	}
	end := t.sinks.record.begin()
	for i := range held {
		t.sinks.record.apply(&held[i], nil)
	}
	for i, r := range t.Rules {
		if !late(i) && !departs(i) && t.learns.catchUpOf(i) == nil {
			r.Memory.EndCatchUp()
		}
	}
	end()
	var departing []int
	for i := range t.Rules {
		if departs(i) {
			departing = append(departing, i)
		}
	}
	if p != nil {
		clear(p.late)
	}
	t.BeginCatchUp(pupils, known, knew, true)
	for _, i := range departing {
		t.beginDeparting(i, known, true)
	}
}

// held returns the changes of the record that were held back.
func (t *tutor) held(p *resuming) []evaluate.Change {
	changes := make([]evaluate.Change, 0, len(p.heldObjects)+1)
	for key, o := range p.heldObjects {
		var c evaluate.Change
		if o == nil {
			gone := object.FromIdentity(key.Namespace, key.Name, "", "")
			t.note(delta.Delta{Type: delta.Deleted, Object: gone}, &c)
		} else {
			t.note(delta.Delta{Type: delta.Synced, Object: o}, &c)
		}
		changes = append(changes, c)
	}
	if p.heldPosition != nil {
		changes = append(changes, evaluate.Change{Moved: true, Position: *p.heldPosition})
	}
	return changes
}
