package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/source"
	"github.com/informd/informd/engine/state"
)

// secrets are the resource of whose objects no text is ever written.
var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// record is what the state is told of one informer, in the informer's callback. It also knows what was saved of it, until that
// was followed up.
type record struct {
	*state.Store
	id         string
	informer   *state.Informer
	source     *source.Informer
	keep       *object.Paths
	secret     bool
	rules      []*runningRule
	evaluators []*evaluator

	saved *saved           // nil once it was followed up
	whole []*object.Object // what was saved, until rules are told whose where is another
}

// newRecord is the record of an informer; nil if nothing is kept.
func (e *Engine) newRecord(planned *plan.Informer, of *source.Informer) *record {
	if e.durable == nil {
		return nil
	}
	r := &record{
		Store: e.durable.store, id: informerID(planned), source: of, keep: planned.Keep,
		secret: planned.Resource == secrets,
	}
	r.informer = r.Store.Informer(r.id, state.InformerOptions{Packer: of.Packer(), Kept: kept(planned.Keep), Secret: r.secret})
	for _, rule := range e.rules {
		if slices.Contains(planned.Rules, rule.Rule) {
			r.rules = append(r.rules, rule)
		}
	}
	e.durable.records[planned] = r
	return r
}

// Begin implements source.Record.
func (r *record) Begin() {
	r.Pace()
	r.Store.Begin()
}

// Put implements source.Record.
func (r *record) Put(o *object.Object) {
	if key := (delta.Delta{Object: o}).Key(); r.secret && r.saved != nil && r.saved.holds {
		r.saved.held.objects[key] = o // what late rules are inside of is not known yet
	} else if r.holds(key) {
		r.saved.held.objects[key] = o
		return
	}
	r.put(o)
}

// put records an object. Of a secret it notes which rules it is inside of: from what is kept of it that could not be told.
func (r *record) put(o *object.Object) {
	var inside []string
	if r.secret {
		for _, e := range r.evaluators {
			inside = e.inside(o, inside)
		}
	}
	r.informer.Put(o, inside)
}

// Delete implements source.Record.
func (r *record) Delete(key delta.Key) {
	if r.holds(key) {
		r.saved.held.objects[key] = nil
		return
	}
	if r.saved != nil {
		delete(r.saved.held.objects, key)
	}
	r.informer.Delete(key)
}

// Version implements source.Record.
func (r *record) Version(version string) {
	if r.saved != nil && r.saved.holdsVersion {
		r.saved.held.version = &version
		return
	}
	r.informer.Version(version)
}

// holds tells whether what was saved of an object stays as it is for now.
func (r *record) holds(key delta.Key) bool {
	return r.saved != nil && r.saved.holds && r.saved.objects[key] != nil
}

// recordHeld, within Begin and End, records what was held.
func (r *record) recordHeld(h held) {
	for key, o := range h.objects {
		if o == nil {
			r.informer.Delete(key)
		} else {
			r.put(o)
		}
	}
	if h.version != nil {
		r.informer.Version(*h.version)
	}
}

// takeUp has the informer go on from a snapshot.
func (r *record) takeUp(snapshot state.Snapshot, rules map[string]state.Rule) {
	for _, rule := range r.rules {
		rule.catchUp(r)
	}
	if len(snapshot.Objects) == 0 && snapshot.ResourceVersion == "" {
		r.source.Restore(source.Saved{}, r)
		return
	}
	s := &saved{
		inside: snapshot.Inside, before: make(map[*runningRule]where), changed: make(map[*runningRule]bool),
		late: make(map[*runningRule]bool), held: held{objects: make(map[delta.Key]*object.Object)}, round: roundOf(snapshot.ResourceVersion),
	}
	isWhole := covers(snapshot.Kept, r.keep)
	partial := r.secret || !isWhole
	for _, rule := range r.rules {
		known, ok := rules[rule.Name].Seen[r.id]
		wait := r.waitOf(rule)
		if !ok && wait != nil {
			continue // it is told when it goes on
		}
		wait.saw(rule)
		if ok {
			rule.knew(r, known)
			before, err := whereOf(known)
			if ok = err == nil; ok { // else it is of another version's language
				s.before[rule] = before
			}
		}
		switch {
		case !ok:
			s.late[rule] = true
		case known == rule.whereText():
		case partial:
			s.late[rule], s.holds, s.holdsVersion = true, true, !isWhole
		default:
			s.changed[rule] = true
			rule.hold()
			r.whole = snapshot.Objects
		}
	}
	if partial {
		s.objects = make(map[delta.Key]*object.Object, len(snapshot.Objects))
		for _, o := range snapshot.Objects {
			s.objects[delta.Delta{Object: o}.Key()] = o
		}
	}
	r.saved = s
	r.source.Restore(source.Saved{Objects: snapshot.Objects, ResourceVersion: snapshot.ResourceVersion, Partial: partial, Follow: r.secret}, r)
}

// waitOf is what a rule waits for here; nil if it does not.
func (r *record) waitOf(rule *runningRule) *wait {
	for _, e := range r.evaluators {
		if slices.Contains(e.rules, rule) {
			return e.wait
		}
	}
	return nil
}

// wasLate tells of a rule that is late and has seen the informer, whether it had an object inside when it was told last.
func (r *record) wasLate(rule *runningRule, o *object.Object) (was, late bool) {
	if !r.isLate(rule) {
		return false, false
	}
	_, late = r.saved.before[rule]
	return slices.Contains(r.saved.inside[delta.Delta{Object: o}.Key()], rule.Name), late
}

// inside appends the names of the rules with a where that an object is inside of, or was as far as late ones have been told.
func (e *evaluator) inside(o *object.Object, names []string) []string {
	for _, r := range e.rules {
		if was, late := e.record.wasLate(r, o); late {
			if was {
				names = append(names, r.Name)
			}
			continue
		}
		if r.Where == nil {
			continue
		}
		if in, _ := r.Where.Bool(&expr.Env{Object: e.look.Tree(o)}); in { // that it fails was counted
			names = append(names, r.Name)
		}
	}
	e.look.forget()
	return names
}
