package engine

import (
	"context"
	"iter"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
)

// resuming is what an intake knows of the cut that it resumes from, until its informer has caught
// up with the server, and its late rules with the informer. It carries out the decision of
// [resume.Decide]. A nil resuming has nothing
// left to do. It has many fields because rules, objects and what is held back meet here.
//
// Rules that are New or Changed see the resulting differences in one of two ways:
//
//   - changed rules see them at once, if the cut holds whole objects. Their lanes hold the changes
//     undecided until their source has settled.
//   - late rules catch up once the informer has: see catchUp. New rules are late, and so are Changed
//     rules if the cut holds only parts of objects. If the cut has nothing of the informer, only
//     rules that have left another one are late; the others see all objects as they come.
type resuming struct {
	verdicts []resume.Verdict // by rule
	whole    []*object.Object // in the cut, until tellChanged; nil if no rule needs them
	changed  map[int]bool
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
	// because the names of the rules that have them inside stand beside them. holdsPosition holds
	// back the resourceVersion in the same way. A recorded resourceVersion would claim that all
	// objects on disk are complete.
	holds, holdsPosition bool
	heldObjects          map[delta.Key]*object.Object // newest states; nil: gone
	heldPosition         *string
}

// resume makes the informer resume from its snapshot.
func (in *intake) resume(snapshot state.Snapshot, decision resume.Decision) {
	if !in.record.store.IsNew() {
		for _, r := range in.rules {
			r.memory.beginCatchUp()
		}
	}
	isNew := len(snapshot.Objects) == 0 && snapshot.ResourceVersion == ""
	if isNew && len(in.left) == 0 {
		return
	}
	isWhole := covers(snapshot.Kept, in.record.keep)
	isPartial := in.record.isSecret || !isWhole
	p := &resuming{
		verdicts: make([]resume.Verdict, len(in.rules)),
		changed:  make(map[int]bool), late: make(map[int]bool),
		isSecret: in.record.isSecret, isNew: isNew,
		inside: snapshot.Inside, heldObjects: make(map[delta.Key]*object.Object),
	}
	for i, r := range in.rules {
		v := decision.At(r.id, in.id)
		if in.unseen[i] && (isNew || !v.Recorded) {
			continue // release makes it late when the other sources have settled
		}
		if isNew {
			p.late[i] = in.left[i] != nil
			continue
		}
		delete(in.unseen, i)
		p.verdicts[i] = v
		if v.Recorded {
			r.memory.know(in.id, v.Where)
		}
		switch {
		case v.Standing == resume.New:
			p.late[i] = true
		case v.Standing == resume.Known:
		case isPartial:
			p.late[i], p.holds, p.holdsPosition = true, true, !isWhole
		default:
			p.changed[i] = true
			p.whole = snapshot.Objects
			r.hold()
		}
	}
	if isPartial {
		p.parts = make(map[delta.Key]*object.Object, len(snapshot.Objects))
		for _, o := range snapshot.Objects {
			p.parts[keyOf(o)] = o
		}
	}
	in.resuming = p
	if isNew {
		return
	}
	in.restoreWaits(snapshot.Objects, snapshot.Inside)
	in.informer.Restore(source.Saved{
		Objects: snapshot.Objects, ResourceVersion: snapshot.ResourceVersion,
		Partial: isPartial, Follow: in.record.isSecret,
	})
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
	inside := p.verdicts[i].Before.Has(o, p.isSecret, p.inside[keyOf(o)])
	return evaluate.Before{Object: o, Inside: inside}
}

// wasBehind answers for a rule that has seen the informer and is behind. It returns whether the rule
// had the object inside when it last saw the object. For all other rules ok is false.
func (in *intake) wasBehind(i int, o *object.Object) (inside, ok bool) {
	if !in.isBehind(i, o.Key()) || !in.resuming.verdicts[i].Before.Seen() {
		return false, false
	}
	return in.resuming.before(i, o).Inside, true
}

// missedBy returns the marks to record beside a Secret for rules that have seen the informer, because
// they are behind and have not seen its change. If this run ends before they do, another run shows
// them the change.
func (in *intake) missedBy(o *object.Object) (names []string) {
	p := in.resuming
	if p == nil || !p.isSecret {
		return nil
	}
	for i, r := range in.rules {
		if in.isBehind(i, o.Key()) && p.verdicts[i].Before.Seen() {
			names = append(names, resume.Missed(r.id))
		}
	}
	return names
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
// are recorded at once, and a run that resumed before them would tell older ones.
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
		if in.resuming.before(i, last).Inside {
			in.evaluator.Depart(i, last, s.Now, in.resuming.isSecret, c)
		}
	}
	in.evaluator.Forget()
}

// returned adds to c what rules see of an object that came back whole, and of which the cut holds
// only a part. A rule sees nothing if the object has not changed since the rule last saw it.
func (in *intake) returned(s evaluate.Step, part *object.Object, c *evaluate.Change) {
	isSame := s.Delta.Object.ResourceVersion() == part.ResourceVersion()
	names := in.resuming.inside[keyOf(part)]
	in.evaluator.Remember(s.Delta.Object, s.Tree)
	for i := range in.rules {
		if isSame && !in.resuming.verdicts[i].Before.HasMissed(names) || in.standing(i).Deaf {
			continue
		}
		in.compare(i, part, s, c)
	}
	in.evaluator.Forget()
}

// compare adds to c what a rule sees of an object that was in the cut as before. before is nil if
// the object was not in the cut.
func (in *intake) compare(i int, before *object.Object, s evaluate.Step, c *evaluate.Change) {
	p := in.resuming
	in.evaluator.Compare(i, p.before(i, before), s, p.isSecret, c)
}

// tellChanged shows changed rules the difference that their new where makes to the objects in the
// cut. From then on they see every step. It must be called before any step. Their lanes hold the
// resulting changes undecided until release, merged with later changes.
func (in *intake) tellChanged() {
	p := in.resuming
	for _, o := range p.whole {
		in.tell(o, func(s evaluate.Step, c *evaluate.Change) {
			for i := range in.rules {
				if p.changed[i] {
					in.compare(i, o, s, c)
				}
			}
		})
	}
	p.whole = nil
	defer in.record.begin()()
	for i := range p.changed {
		in.rules[i].memory.see(in.id)
	}
}

// release ends the hold of changed rules once their informer has settled. It returns early when ctx
// ends.
func (in *intake) release(ctx context.Context, changed map[int]bool) {
	if source.WaitUntilSettled(ctx, in.informer) {
		for i, r := range in.rules {
			if changed[i] {
				r.release()
			}
		}
	}
}

// CaughtUp implements source.Consumer. Late rules begin to catch up. What was held back for them is
// recorded when they have.
func (in *intake) CaughtUp(known iter.Seq[*object.Object]) {
	in.caughtUp = true
	in.measureKnown(known)
	p := in.resuming
	late := func(i int) bool { return p.isLate(i) }
	departs := func(i int) bool { return in.left[i] != nil && !in.unseen[i] && !late(i) }
	var pupils []follow.Pupil
	var knew []string
	var held []evaluate.Change
	if p != nil {
		if pupils = in.pupils(p); len(pupils) == 0 {
			in.resuming = nil
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
		if !late(i) && !departs(i) {
			r.memory.endCatchUp()
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

// pupils returns the late rules, with what they knew of the objects in the cut.
func (in *intake) pupils(p *resuming) (pupils []follow.Pupil) {
	for i := range in.rules {
		if p.late[i] {
			has := func(o *object.Object) bool { return p.before(i, o).Inside }
			pupils = append(pupils, follow.Pupil{
				Rule: i, Knew: follow.Cut{Objects: p.parts, Has: has},
			})
		}
	}
	return pupils
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
