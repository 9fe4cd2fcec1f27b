package engine

import (
	"iter"
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

// resume makes the informer resume from its snapshot.
func (in *intake) resume(snapshot state.Snapshot, decision resume.Decision) {
	if !in.record.store.IsNew() {
		for _, r := range in.rules {
			r.Memory.BeginCatchUp()
		}
	}
	isNew := len(snapshot.Objects) == 0 && snapshot.ResourceVersion == ""
	if isNew && len(in.learns.left) == 0 {
		return
	}
	isWhole := resume.Covers(snapshot.Kept, in.record.keep)
	isPartial := in.record.isSecret || !isWhole
	p := &resuming{
		verdicts: make(map[int]resume.Verdict),
		late:     make(map[int]bool),
		isSecret: in.record.isSecret, isNew: isNew,
		inside: snapshot.Inside, heldObjects: make(map[delta.Key]*object.Object),
	}
	var changed []follow.Pupil
	for i, r := range in.rules {
		v := decision.At(r.ID, in.id)
		if in.learns.unseen[i] && (isNew || !v.Recorded) {
			continue // release makes it late when the other sources have settled
		}
		if isNew {
			p.late[i] = in.learns.left[i] != nil
			continue
		}
		delete(in.learns.unseen, i)
		p.verdicts[i] = v
		if v.Recorded {
			r.Memory.Know(in.id, v.Where)
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
	in.beginFollowing(changed, snapshot.Objects)
	if isPartial {
		p.parts = make(map[delta.Key]*object.Object, len(snapshot.Objects))
		for _, o := range snapshot.Objects {
			p.parts[delta.KeyOf(o)] = o
		}
	}
	in.learns.resuming = p
	if isNew {
		return
	}
	in.waits.Restore(snapshot.Objects, snapshot.Inside, p.known(in.rules), in.clock.Now())
	in.informer.Restore(source.Saved{
		Objects: snapshot.Objects, ResourceVersion: snapshot.ResourceVersion,
		Partial: isPartial, Follow: in.record.isSecret,
	})
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
	return p != nil && p.parts != nil && d.Type == delta.Deleted && p.parts[d.Key()] == d.Object
}

// before returns an object of the cut, and whether a rule had it inside. o may be nil.
func (p *resuming) before(i int, o *object.Object) evaluate.Before {
	if o == nil {
		return evaluate.Before{}
	}
	inside := p.verdicts[i].Before.Has(o, p.isSecret, p.inside[delta.KeyOf(o)])
	return evaluate.Before{Object: o, Inside: inside}
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
func (in *intake) lastOf(s evaluate.Step, c *evaluate.Change) {
	last := s.Delta.Object
	for i := range in.rules {
		if in.standing(i).Deaf {
			continue
		}
		in.evaluator.Unwait(i, last, c)
		if in.learns.resuming.before(i, last).Inside {
			in.evaluator.Depart(i, last, s.Now, in.learns.resuming.isSecret, c)
		}
	}
	in.evaluator.Forget()
}

// returned adds to c what rules see of an object that came back whole, and of which the cut holds
// only a part. A rule sees nothing if the object has not changed since the rule last saw it.
func (in *intake) returned(s evaluate.Step, part *object.Object, c *evaluate.Change) {
	isSame := s.Delta.Object.ResourceVersion() == part.ResourceVersion()
	names := in.learns.resuming.inside[delta.KeyOf(part)]
	in.evaluator.Remember(s.Delta.Object, s.Tree)
	for i := range in.rules {
		if isSame && !in.learns.resuming.verdicts[i].Before.HasMissed(names) || in.standing(i).Deaf {
			continue
		}
		before := in.learns.resuming.before(i, part)
		in.evaluator.Compare(i, before, s, in.isSecret(), c)
	}
	in.evaluator.Forget()
}

// CaughtUp implements source.Consumer. Late rules begin to catch up. What was held back for them is
// recorded when they have.
func (in *intake) CaughtUp(known iter.Seq[*object.Object]) {
	in.learns.caughtUp = true
	in.gauges.CaughtUp(known)
	if in.isStepped { // otherwise Tick gives the turns, once nothing is held any more
		isHeld := func(u *catchUp) bool { return len(u.held) > 0 }
		in.catchUpAll(known, slices.DeleteFunc(slices.Clone(in.learns.catchUps), isHeld)...)
	}
	p := in.learns.resuming
	late := func(i int) bool { return p.isLate(i) }
	departs := func(i int) bool { return in.learns.left[i] != nil && !in.learns.unseen[i] && !late(i) }
	var pupils []follow.Pupil
	var knew []string
	var held []evaluate.Change
	if p != nil {
		if pupils = in.learns.pupils(); len(pupils) == 0 {
			in.learns.resuming = nil
			held = in.held(p)
		}
		for key := range p.parts {
			knew = append(knew, key.String())
		}
	}
	end := in.record.begin()
	for i := range held {
		in.record.apply(&held[i], nil)
	}
	for i, r := range in.rules {
		if !late(i) && !departs(i) && in.learns.catchUpOf(i) == nil {
			r.Memory.EndCatchUp()
		}
	}
	end()
	var departing []int
	for i := range in.rules {
		if departs(i) {
			departing = append(departing, i)
		}
	}
	if p != nil {
		clear(p.late)
	}
	in.beginCatchUp(pupils, known, knew, true)
	for _, i := range departing {
		in.beginDeparting(i, known, true)
	}
}

// held returns the changes of the record that were held back.
func (in *intake) held(p *resuming) []evaluate.Change {
	changes := make([]evaluate.Change, 0, len(p.heldObjects)+1)
	for key, o := range p.heldObjects {
		var c evaluate.Change
		if o == nil {
			gone := object.FromIdentity(key.Namespace, key.Name, "", "")
			in.note(delta.Delta{Type: delta.Deleted, Object: gone}, &c)
		} else {
			in.note(delta.Delta{Type: delta.Synced, Object: o}, &c)
		}
		changes = append(changes, c)
	}
	if p.heldPosition != nil {
		changes = append(changes, evaluate.Change{Moved: true, Position: *p.heldPosition})
	}
	return changes
}
