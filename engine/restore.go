package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/dispatch"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/resume"
	"github.com/informd/informd/engine/state"
)

// loaded is what the state held when it was opened.
type loaded struct {
	rules     map[string]state.RuleMemory // by ID, as are the rules below
	cut       resume.Cut
	decision  resume.Decision
	paused    map[string]bool // by rule
	snapshots map[*intake.Intake]state.Snapshot
	letters   []delivery.Letter
	left      map[string]state.Snapshot  // informers that a rule has left, by id
	waiting   map[string][]state.LaneKey // by rule
	gathered  map[string][]state.LaneKey // by rule
	notes     map[noteID][]byte
	occasions map[string][]byte // by rule, gone ones too
}

// noteID identifies a note of the state.
type noteID struct{ rule, name string }

// notesOf returns the notes of one rule, by name.
func notesOf(rule string, notes map[noteID][]byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for id, value := range notes {
			if id.rule == rule && !yield(id.name, value) {
				return
			}
		}
	}
}

// note returns a note of a rule.
func (l *loaded) note(rule, name string) (value []byte, ok bool) {
	value, ok = l.notes[noteID{rule, name}]
	return value, ok
}

// restore resumes from the state once it is known to belong to this cluster. It returns early when
// ctx ends.
func (e *Engine) restore(ctx context.Context) error {
	if e.store == nil {
		return nil
	}
	uid, err := e.informers.ClusterUID(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask for the cluster's identity: %w", err)
	}
	if uid == "" {
		e.log.Warn("informd may not read the namespace kube-system: "+
			"it can tell this cluster from others only by its address",
			"server", e.server)
	}
	return e.resumeIn(ctx, uid)
}

// resumeIn resumes from the state if it belongs to the cluster with this uid. "" means that the uid
// is unknown.
func (e *Engine) resumeIn(ctx context.Context, uid string) error {
	if e.store == nil {
		return nil
	}
	if err := e.store.Bind(state.Cluster{UID: uid, Server: e.server}); err != nil {
		return err
	}
	from, err := e.load()
	// the store has logged why it was set aside, and is empty now
	if errors.Is(err, state.ErrSetAside) {
		from, err = e.load()
	}
	if err != nil {
		return err
	}
	e.resume(from)
	e.resumeAsides(ctx, from)
	return nil
}

// load reads everything before anything is used.
func (e *Engine) load() (from loaded, err error) {
	from = loaded{
		rules:     make(map[string]state.RuleMemory),
		cut:       resume.Cut{Rules: make(map[string]resume.Memory)},
		paused:    make(map[string]bool),
		snapshots: make(map[*intake.Intake]state.Snapshot),
		left:      make(map[string]state.Snapshot),
		waiting:   make(map[string][]state.LaneKey),
		gathered:  make(map[string][]state.LaneKey),
		notes:     make(map[noteID][]byte),
		occasions: make(map[string][]byte),
	}
	rules, err := e.store.Rules()
	if err != nil {
		return loaded{}, err
	}
	for _, r := range rules {
		from.cut.Rules[r.ID] = resume.Memory{Name: r.ID, Resource: r.Resource, Seen: r.Seen}
		from.paused[r.ID] = r.Paused
		from.rules[r.ID] = r
	}
	e.identify(from.rules)
	notes, err := e.store.Notes()
	if err != nil {
		return loaded{}, err
	}
	for _, n := range notes {
		from.notes[noteID{n.Rule, n.Name}] = n.Value
		if n.Name == live.OccasionNote {
			from.occasions[n.Rule] = n.Value
		}
	}
	if from.letters, err = e.store.Letters(); err != nil {
		return loaded{}, err
	}
	if from.cut.Informers, err = e.store.Informers(); err != nil {
		return loaded{}, err
	}
	for _, in := range e.work().Intakes {
		if from.snapshots[in], err = in.Saved(); err != nil {
			return loaded{}, err
		}
		e.stepping.order(from.snapshots[in].Objects)
	}
	for _, r := range e.work().Rules {
		if from.waiting[r.ID], err = r.Keys(); err != nil {
			return loaded{}, err
		}
		_, gathered := from.note(r.ID, live.GathersNote)
		if from.gathered[r.ID], err = r.LoadGathered(gathered); err != nil {
			return loaded{}, err
		}
	}
	from.decision = resume.Decide(e.planned(), e.present.Intakes().IDs(), from.cut)
	return from, e.loadLeft(&from)
}

// loadLeft reads the objects of informers that rules have left.
func (e *Engine) loadLeft(from *loaded) (err error) {
	for _, in := range e.work().Intakes { // others may still watch it
		from.left[in.ID] = from.snapshots[in]
	}
	for _, r := range e.work().Rules {
		for id := range from.decision.Left(r.ID) {
			if _, ok := from.left[id]; ok || !slices.Contains(from.cut.Informers, id) {
				continue
			}
			options := state.ObjectsOptions{Secret: r.Preparer.IsSecret()}
			if from.left[id], err = e.store.Objects(id, options).Load(); err != nil {
				return err
			}
		}
	}
	return nil
}

// resume makes informers, lanes and dead letters go on from the loaded state.
func (e *Engine) resume(from loaded) {
	end := e.begin()
	restoreTargets(e.parts.Targets, from)
	e.parts.Acting.RestoreWrites(notesOf(noRule, from.notes))
	end()
	left := e.part(from)
	e.drop(left, from)
	for _, id := range e.present.Intakes().IDs() {
		e.present.Intakes().KeepApart(id)
	}
	e.resumeOccasions(from)
	for i := range from.letters {
		if l := &from.letters[i]; l.Quotes() {
			l.Reason, l.Plain = "not kept over the restart, as it may quote a secret", true
		}
	}
	end = e.begin() // Restore may evict letters that exceed the limit, and records that
	evicted := e.dead.Restore(from.letters)
	end()
	dispatch.LogEvicted(e.log, evicted)
	waiting := 0
	for _, r := range e.work().Rules {
		for _, k := range from.waiting[r.ID] {
			r.Lane.Restore(k.Key, k.N, k.First, k.Last, k.Bytes)
			waiting += k.N
		}
		r.Memory.RestorePause(from.paused[r.ID])
	}
	e.takeNames(from)
	end = e.begin()
	for _, r := range e.work().Rules {
		r.ResumeGathered(from.gathered[r.ID], notesOf(r.ID, from.notes))
	}
	end()
	objects := 0
	for _, in := range e.work().Intakes {
		objects += len(from.snapshots[in].Objects)
		in.Resume(from.snapshots[in], from.decision)
		in.Rounds.Restore(from.note, in.Informer.LastRound)
	}
	end = e.begin()
	for _, in := range e.work().Intakes { // after everything that rules have seen was loaded
		in.NoteResumed()
	}
	// also a rule that has seen nothing yet, because its deliveries are found by its name
	for _, r := range e.work().Rules {
		r.Memory.NoteLoaded()
	}
	e.restoreCounts(from.notes)
	resumeTargets(&e.parts, e.work().Rules, from)
	for _, r := range e.work().Rules {
		r.Pruning.Spares().Restore(notesOf(r.ID, from.notes))
	}
	end()
	if objects+waiting+len(from.letters) > 0 {
		e.log.Info("resuming from the saved state",
			"objects", objects, "waiting", waiting, "dead", len(from.letters))
	}
}

// planned returns the plan in the form that resume.Decide takes.
func (e *Engine) planned() []resume.Memory {
	at := make(map[*live.Rule]map[string]string, len(e.work().Rules))
	rules := make([]resume.Memory, 0, len(e.work().Rules))
	for _, r := range e.work().Rules {
		at[r] = make(map[string]string)
		rules = append(rules, resume.Memory{Name: r.ID, Resource: r.Resource(), Seen: at[r]})
	}
	for _, in := range e.work().Intakes {
		for _, r := range in.Rules {
			at[r][in.ID] = r.Membership()
		}
	}
	return rules
}

// part hands what rules had inside, in informers that they have left, to the intakes from which
// they will learn what became of it.
func (e *Engine) part(from loaded) *intake.Departures {
	left := intake.NewDepartures(e.present.Intakes)
	for _, r := range e.work().Rules {
		for id, verdict := range from.decision.Left(r.ID) {
			snapshot := from.left[id]
			var inside []*object.Object
			for _, o := range snapshot.Objects {
				if verdict.Before.Has(o, r.Preparer.IsSecret(), snapshot.Inside[delta.KeyOf(o)]) {
					inside = append(inside, o)
				}
			}
			if len(inside) == 0 {
				continue
			}
			left.Resume(r, id, inside)
			e.log.Info("the rule's source had another selection when the state was saved: "+
				"what it no longer selects is deleted for the rule",
				append([]any{"rule", r.Name, "objects", len(inside)}, resume.Selection(id)...)...)
			r.Memory.Know(id, verdict.Where)
		}
	}
	return left
}

// drop deletes the saved state of rules and informers that the plan no longer has. It keeps the
// informers of which rules must still learn: see intake.Departures.
func (e *Engine) drop(left *intake.Departures, from loaded) {
	end := e.begin()
	for _, gone := range from.decision.Gone {
		live.DropRule(e.store, gone.Name)
		maps.DeleteFunc(from.notes, func(id noteID, _ []byte) bool { return id.rule == gone.Name })
		if r := e.work().ByID(gone.Name); r != nil {
			r.OpenLanes()
		}
	}
	for _, id := range from.decision.Unwatched {
		if !left.IsOwed(id) {
			e.store.DropInformer(id)
		}
	}
	end()
	for _, gone := range from.decision.Gone {
		waiting := 0
		for _, k := range from.waiting[gone.Name] {
			waiting += k.N
		}
		delete(from.paused, gone.Name)
		for _, k := range from.gathered[gone.Name] {
			waiting += k.N
		}
		delete(from.waiting, gone.Name)
		delete(from.gathered, gone.Name)
		e.logGone(from.rules[gone.Name].Name, gone.Replaced, waiting)
	}
}

// begin begins a cut, and end ends it. See [state.Store.Begin].
func (e *Engine) begin() (end func()) {
	return live.Notes{Store: e.store}.Begin()
}
