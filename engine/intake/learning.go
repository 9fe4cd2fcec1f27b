package intake

import (
	"maps"
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/evaluate"
	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/resume"
)

// learning is what the rules of an intake still have to learn of its informer's objects, before
// they follow the informer. Rules are named by their indexes in the intake. The informer's lock
// guards it.
type learning struct {
	isSecret bool
	// caughtUp says that the informer has caught up with the server.
	caughtUp bool
	// unseen are the rules that see the informer for the first time and wait for other sources.
	unseen map[int]bool
	// left is what rules must learn of informers that they have left.
	left map[int]*left
	// leaving is what rules have inside that are about to leave the informer; nil if none are.
	leaving *leaving
	// resuming is what the intake still needs of the cut that it resumes from; nil once late rules
	// have caught up.
	resuming *resuming
	catchUps []*catchUp // of rules that do not follow the informer yet, in the order of their turns
}

// newLearning returns a learning of rules that have nothing to learn.
func newLearning(isSecret bool) learning {
	return learning{isSecret: isSecret, unseen: make(map[int]bool), left: make(map[int]*left)}
}

// isDeaf reports whether a rule takes no steps yet.
func (l *learning) isDeaf(rule int) bool { return l.unseen[rule] || l.resuming.isLate(rule) }

// isCatchingUp reports whether a rule of the intake has not caught up.
func (l *learning) isCatchingUp() bool { return l.resuming != nil || len(l.catchUps) > 0 }

// catchUpOf returns the catch-up of a rule that does not follow the informer; nil if it has none.
func (l *learning) catchUpOf(rule int) *catchUp {
	for _, u := range l.catchUps {
		if u.Has(rule) && !u.departs {
			return u
		}
	}
	return nil
}

// came says that the informer did not know an object.
func (l *learning) came(o *object.Object) {
	for _, u := range l.catchUps {
		u.Came(o.Key())
	}
}

// owes reports whether a rule has not learned of an object that the informer knows.
func (l *learning) owes(rule int, key string) bool {
	u := l.catchUpOf(rule)
	return u != nil && u.Owes(key)
}

// owesAny reports whether any rule has not learned of an object.
func (l *learning) owesAny(o *object.Object) bool {
	if len(l.catchUps) == 0 { // as nearly always: the key costs an allocation
		return false
	}
	key := o.Key()
	return slices.ContainsFunc(l.catchUps, func(u *catchUp) bool { return u.Owes(key) && !u.departs })
}

// isBehind reports whether a rule has not learned what has become of an object in the cut.
func (l *learning) isBehind(rule int, key string) bool {
	if l.resuming.isLate(rule) {
		return true
	}
	u := l.catchUpOf(rule)
	return u != nil && u.resumes && u.Owes(key)
}

// isDeafNow reports whether a rule catches up, and the step at hand is the turn of its object.
func (l *learning) isDeafNow(rule int) bool {
	u := l.catchUpOf(rule)
	return u != nil && u.isNow
}

// knew returns an object as a pupil saw it last, and forgets that it had it inside elsewhere. last
// is the object as the informer had it last, or nil.
func (l *learning) knew(
	p follow.Pupil, key delta.Key, last *object.Object,
) evaluate.Before {
	elsewhere := l.left[p.Rule]
	if elsewhere == nil || !l.caughtUp { // until then, the object may just not be listed yet
		return p.Before(key, last, nil)
	}
	defer delete(elsewhere.Objects, key)
	return p.Before(key, last, &elsewhere.Inside)
}

// wasBehind answers for a rule that has seen the informer and is behind. It returns whether the
// rule had the object inside when it last saw the object. For all other rules ok is false.
func (l *learning) wasBehind(i int, o *object.Object) (inside, ok bool) {
	if !l.isBehind(i, o.Key()) || !l.resuming.verdicts[i].Before.Seen() {
		return false, false
	}
	return l.resuming.before(i, o).Inside, true
}

// missedBy returns the marks to record beside a Secret for rules that have seen the informer,
// because they are behind and have not seen its change. If this run ends before they do, another
// run shows them the change.
func (l *learning) missedBy(o *object.Object, rules []*live.Rule) (names []string) {
	p := l.resuming
	if p == nil || !p.isSecret {
		return nil
	}
	for i, r := range rules {
		if l.isBehind(i, o.Key()) && p.verdicts[i].Before.Seen() {
			names = append(names, resume.Missed(r.ID))
		}
	}
	return names
}

// pupils returns the late rules, with what they knew of the objects in the cut.
func (l *learning) pupils() (pupils []follow.Pupil) {
	p := l.resuming
	for _, i := range slices.Sorted(maps.Keys(p.late)) {
		if p.late[i] {
			has := func(o *object.Object) bool { return p.before(i, o).Inside }
			pupils = append(pupils, follow.Pupil{
				Rule: i, Knew: follow.Cut{Objects: p.parts, Has: has},
			})
		}
	}
	return pupils
}

// makeLate makes a rule learn of the informer's objects once the informer has caught up.
func (l *learning) makeLate(i int) {
	if l.resuming == nil {
		l.resuming = &resuming{
			verdicts: make(map[int]resume.Verdict), isSecret: l.isSecret, isNew: true,
			late:        make(map[int]bool),
			heldObjects: make(map[delta.Key]*object.Object),
		}
	}
	l.resuming.late[i] = true
}

// carries reports whether all rules of a catch-up, of an intake with the rules before, go on in one
// with rules.
func carries(rules, before []*live.Rule, u *catchUp) bool {
	return !slices.ContainsFunc(u.Pupils, func(p follow.Pupil) bool {
		return successor(rules, before[p.Rule]) < 0
	})
}

// successor returns the index of the rule that goes on in place of was, with the same membership,
// or -1.
func successor(rules []*live.Rule, was *live.Rule) int {
	return slices.IndexFunc(rules, func(r *live.Rule) bool {
		return r == was || r.Before == was && r.Membership() == was.Membership()
	})
}

// carry takes over what was knows of its rule j, which is the rule i here.
func (l *learning) carry(i int, was *learning, j int) {
	if was.unseen[j] {
		l.unseen[i] = true
	} else {
		delete(l.unseen, i) // it waits for others, but has seen this informer
	}
	if left := was.left[j]; left != nil {
		l.left[i] = left
	}
}

// carryResuming carries over what the intake before still needs of the cut that it resumes from.
// from has the rules that go on.
func (l *learning) carryResuming(p *resuming, from map[int]int) {
	if p == nil {
		return
	}
	late := map[int]bool{}
	if l.resuming != nil {
		late = l.resuming.late
	}
	next := *p
	next.verdicts = make(map[int]resume.Verdict)
	next.late = late
	for i, j := range from {
		next.verdicts[i] = p.verdicts[j]
		if p.late[j] {
			next.late[i] = true
		}
	}
	l.resuming = &next
}
