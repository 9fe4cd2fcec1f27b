package intake

import (
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/follow"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
)

// parting is what a rule must learn of the objects of an informer that it has left: its source
// watched that selection before a restart or a reload, and watches another one now. An object that
// the rule had inside, and that its source no longer selects, is deleted for the rule, as if it had
// fallen out of the where.
//
// The rule learns from the intakes of its present informers, from each about the objects that could
// be in its informer. It does so when that has caught up, because before that an object may just
// not have been listed yet. Until the rule has learned all, the state keeps the objects that it had
// inside, and the rule's record says where. So if this run ends early, the next one goes on with
// the rest. The objects stay in the record of the informer if no informer writes to that any more.
// Otherwise the rule gets a record of its own: see Set.KeepApart and apart.
type parting struct {
	rule *live.Rule
	from *leftInformer
	owed atomic.Int32 // intakes from which the rule has not learned all
}

// leftInformer is the record of an informer that rules have left. No informer writes to it.
type leftInformer struct {
	id   string
	owed atomic.Int32 // partings that have not ended
}

// left is what a rule must still learn of its partings from one intake.
type left struct {
	partings []*parting
	follow.Inside
}

// newLeft returns a left without objects.
func newLeft() *left {
	return &left{Inside: follow.Inside{Objects: make(map[delta.Key]*object.Object)}}
}

// Departures are what rules have left at a restart or a reload.
type Departures struct {
	now  func() Set // returns the intakes at work
	all  []departure
	from map[string]*leftInformer // by id
}

// departure is a rule that no longer sees an informer.
type departure struct {
	rule   *live.Rule                   // as it is now
	from   string                       // the informer's id
	inside map[delta.Key]*object.Object // that the rule had inside
	// partings are those of an earlier reload of which the rule must still learn from the
	// informer's intake, or the one that keeps a record apart; nil if the informer's record stays
	// for the rule.
	partings []*parting
}

// NewDepartures returns departures without any. now returns the intakes at work.
func NewDepartures(now func() Set) *Departures {
	return &Departures{now: now, from: make(map[string]*leftInformer)}
}

// add adds a departure. Only one goroutine calls it.
func (d *Departures) add(one departure) { d.all = append(d.all, one) }

// IsOwed reports whether an informer stays on disk because rules still have to learn of its
// objects. It is called after Resume or HandOver.
func (d *Departures) IsOwed(informer string) bool { return d.from[informer] != nil }

// begin returns a parting of a rule from an informer.
func (d *Departures) begin(r *live.Rule, informer string) *parting {
	of := d.from[informer]
	if of == nil {
		of = &leftInformer{id: informer}
		d.from[informer] = of
	}
	of.owed.Add(1)
	return &parting{rule: r, from: of}
}

// Resume hands the objects that a rule had inside before a restart, in an informer that it has
// left, to the intakes from which it will learn of them. Nothing is at work yet.
func (d *Departures) Resume(r *live.Rule, informer string, inside []*object.Object) {
	p := d.begin(r, informer)
	for _, o := range inside {
		in, i := d.now().For(r, delta.KeyOf(o))
		l := in.learns.left[i]
		if l == nil {
			l = newLeft()
			in.learns.left[i] = l
		}
		l.add(o, p)
	}
}

// HandOver has rules learn what became of the objects that they had inside in informers that they
// no longer see: see parting. The intakes are at work.
func (d *Departures) HandOver() {
	byIntake := make(map[*Intake]map[int]*left)
	for _, one := range d.all {
		partings := one.partings
		if partings == nil {
			partings = []*parting{d.begin(one.rule, one.from)}
		}
		for _, o := range one.inside {
			in, i := d.now().For(one.rule, delta.KeyOf(o))
			if byIntake[in] == nil {
				byIntake[in] = make(map[int]*left)
			}
			l := byIntake[in][i]
			if l == nil {
				l = newLeft()
				byIntake[in][i] = l
			}
			l.add(o, partings...)
		}
		for _, p := range one.partings {
			p.owed.Add(-1) // the intake that owed it until now, or apart.keep
		}
	}
	for in, all := range byIntake {
		in.Informer.Visit(func(known iter.Seq[*object.Object]) { in.owe(all, known) })
	}
}

// leave notes what rules that no longer see an intake's informer have inside. becomes returns what
// a rule is now, or nil. next is the intake that takes over; nil if the informer is dropped. The
// informer calls leave between two steps.
func (d *Departures) leave(
	in, next *Intake, becomes func(*live.Rule) *live.Rule,
	known iter.Seq[*object.Object], get func(key string) *object.Object,
) {
	for j, is := range leavers(in.Rules, next, becomes) {
		if l := in.learns.left[j]; l != nil && len(l.Objects) > 0 {
			d.add(departure{is, in.ID, l.Objects, l.partings})
		}
		inside, own := in.leaves(j, is, next != nil, known, get)
		gone := departure{rule: is, from: in.ID, inside: inside}
		end := in.sinks.record.begin()
		switch {
		case len(inside) == 0:
			own.drop()
			is.Memory.Forget(in.ID)
			end()
			continue
		case own != nil: // the informer goes on writing to its record
			gone.partings = []*parting{own.keep(is)}
			is.Memory.Forget(in.ID)
		}
		end()
		d.add(gone)
	}
	if next == nil {
		clear(in.learns.unseen) // these rules learn nothing of it once their sources have settled
	}
}

// add adds an object that a rule must learn of, and the partings that it is part of.
func (l *left) add(o *object.Object, of ...*parting) {
	l.Objects[delta.KeyOf(o)] = o
	for _, p := range of {
		if !slices.Contains(l.partings, p) {
			l.partings = append(l.partings, p)
			p.owed.Add(1)
		}
	}
}

// Set has the intakes of a plan at work.
type Set []*Intake

// IDs returns the names under which the state keeps the informers.
func (all Set) IDs() []string {
	ids := make([]string, 0, len(all))
	for _, in := range all {
		ids = append(ids, in.ID)
	}
	return ids
}

// For returns the intake of a rule whose informer watches the key's namespace, and the rule's index
// there. If none watches it, For returns any intake of the rule. found is nil if the rule is gone.
func (all Set) For(r *live.Rule, key delta.Key) (found *Intake, rule int) {
	for _, in := range all {
		i := slices.Index(in.Rules, r)
		if i < 0 {
			continue
		}
		of := in.Informer.Selection().Namespace
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
func (t *tutor) parted(i int) {
	l := t.learns.left[i]
	if l == nil {
		return
	}
	delete(t.learns.left, i)
	for _, p := range l.partings {
		if p.end() && t.sinks.record != nil {
			t.sinks.record.store.DropInformer(p.from.id)
		}
	}
}

// end ends one intake's part of the parting. It reports whether no rule needs the record any more.
// It is called within a cut.
func (p *parting) end() (isLast bool) {
	if p.owed.Add(-1) > 0 {
		return false
	}
	p.rule.Memory.Forget(p.from.id)
	return p.from.owed.Add(-1) == 0
}

// KeepApart copies what rules must still learn from the record with this id into records of their
// own. It is called before another informer begins to write to that record. The caller may drop the
// record afterwards.
func (all Set) KeepApart(id string) {
	isOfIt := func(p *parting) bool { return p.from.id == id }
	for _, in := range all {
		in.Informer.Visit(func(iter.Seq[*object.Object]) {
			for _, l := range in.learns.left {
				of := slices.IndexFunc(l.partings, isOfIt)
				if of < 0 {
					continue
				}
				end := in.sinks.record.begin()
				r := l.partings[of].rule
				own := in.newApart(r, id)
				own.put(maps.Values(l.Objects))
				kept := own.keep(r)
				for _, p := range l.partings {
					if isOfIt(p) {
						p.end()
					}
				}
				end()
				l.partings = append(slices.DeleteFunc(l.partings, isOfIt), kept)
			}
		})
	}
}

// owe has rules of the intake learn what became of the objects that they had inside in informers
// that they have left. It is called between two steps.
func (t *tutor) owe(all map[int]*left, known iter.Seq[*object.Object]) {
	for i, l := range all {
		if more := t.learns.left[i]; more != nil { // of an earlier reload
			maps.Copy(l.Objects, more.Objects)
			l.partings = append(l.partings, more.partings...)
		}
		t.learns.left[i] = l
	}
	if !t.learns.caughtUp { // they learn at CaughtUp
		for i := range all {
			t.learns.makeLate(i)
		}
		return
	}
	for i := range all {
		if !t.learns.unseen[i] { // otherwise it learns that with the rest
			t.beginDeparting(i, known, false)
		}
	}
}
