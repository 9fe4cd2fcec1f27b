// Package rule decides which changes a rule selects, and as what: first membership by where, then
// the type of the change, then when, then the payload. Each decision is a function of the change
// and of the caches that the rule may look into. A Rule keeps no state, so membership can be
// decided again at any time from an object's bytes.
package rule

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/informd/informd/engine/count"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/measure"
	"github.com/informd/informd/engine/object"
)

// Rule is a compiled rule. It is immutable and safe for concurrent use. It has many fields because
// each is a field of the manifest, compiled.
type Rule struct {
	Name   string
	Where  *expr.Program // nil: every object
	For    time.Duration // where has to hold that long; 0: not at all
	Due    *expr.Program // from when an object is a member; nil: at once
	When   *expr.Program // nil: every change
	Group  *Grouping     // nil: each change is an event of its own
	Count  *Count        // nil: each change goes on
	Events delta.Set
	// IsScheduled says that Synced comes at moments, and that the number of its round is the
	// moment.
	IsScheduled bool
	Payload     *Template // nil: the objects themselves
	// Attached is what goes along with an event. Attach evaluates it at delivery.
	Attached []Attachment
	// Counters count the changes that the rule selects.
	Counters []*measure.Metric
	// Actions take the place of a delivery; nil: there are none.
	Actions *Actions
}

// Lookup is what a rule may see beside the change itself. One goroutine uses it at a time.
type Lookup interface {
	// Tree decodes what the rules that share the Lookup read of an object. It returns nil for nil.
	Tree(*object.Object) any
	// Old decodes what those rules read of an object as the old state of a change.
	Old(*object.Object) any
	// Cache finds objects of the rule's source, and of those it looks into.
	expr.Cache
	// Now returns the time of the evaluation. Only when, payload and actions ask for it.
	Now() time.Time
}

// Match is a change that a rule selected.
type Match struct {
	Delta   delta.Delta
	Payload json.RawMessage // nil if the rule has none
	// Undecided means that Decide has yet to evaluate when and payload.
	Undecided bool
	// Group is what a rule with Group gathers the change with.
	Group Group
	// Count is what the change counts for, once it is decided; nil: it goes on whatever has come
	// before.
	Count *count.Hit
	// Samples are what the change adds to each of the rule's Counters.
	Samples []measure.Sample
	// Version names the change itself by its resourceVersions. They may differ from those of Delta:
	// a rule sees an object that left where in its last state inside. Rules leave it empty; it is
	// "" if nobody asks who made the change.
	Version string
}

// Member reports whether a change has an object enter, leave or stay inside where, and whether the
// rule asks for such changes. That depends on nothing but the change; Decide does the rest. A Match
// of type Updated has an Old, no other has. If the rule does not ask for this change of a member,
// Member returns it, with ok false. A where that fails does not match. That is no error if the
// state on which it fails is one that the object no longer has: it was one when the state was new.
// err never holds contents of objects.
func (r *Rule) Member(d delta.Delta, look Lookup) (m Match, ok bool, err error) {
	if r.Events&r.becomes(d.Type) == 0 {
		return Match{}, false, nil
	}
	d, ok, err = r.member(d, look)
	switch {
	case !ok:
		return Match{}, false, err
	case !r.Events.Has(d.Type):
		return Match{Delta: d}, false, err
	}
	if d.Type == delta.Deleted {
		// only where needed it; a waiting delta must not keep a state alive that nobody sees
		d.Old = nil
	}
	return Match{Delta: d, Undecided: true}, true, err
}

// Decide reports whether when selects a change that Member returned, and completes the match. A
// when that fails does not match. If when selects the change and the payload fails, the match stays
// Undecided, besides the error.
func (r *Rule) Decide(d delta.Delta, look Lookup) (m Match, ok bool, err error) {
	if r.When == nil && r.Payload == nil && r.Count == nil && r.Counters == nil {
		return Match{Delta: d}, true, nil
	}
	env := r.environment(d, look)
	if r.When != nil {
		matched, failure := r.When.Bool(&env)
		if failure != nil {
			failure = past(failure, d, env, func(env *expr.Env) error {
				_, err := r.When.Bool(env)
				return err
			})
		}
		if err = join(err, "when", failure); !matched {
			return Match{}, false, err
		}
	}
	m.Delta = d
	for _, counter := range r.Counters {
		m.Samples = append(m.Samples, counter.Sample(&env))
	}
	var failure error
	m.Count, failure = r.hit(&env, d)
	err = errors.Join(err, failure)
	if m.Payload, failure = r.payload(&env); failure != nil {
		m.Undecided = true
		failure = past(failure, d, env, func(env *expr.Env) error {
			_, err := r.payload(env)
			return err
		})
	}
	return m, true, join(err, "payload", failure)
}

// Remerge makes the payload of a merged delta.
func (r *Rule) Remerge(d delta.Delta, look Lookup) (json.RawMessage, error) {
	env := r.environment(d, look)
	payload, err := r.payload(&env)
	return payload, join(nil, "payload", err)
}

// maxPayload bounds the JSON of a payload, in bytes.
const maxPayload = 8 << 20

var errLargePayload = fmt.Errorf("it exceeds %d MiB", maxPayload>>20)

// payload returns the payload of a change, or nil if the rule has none.
func (r *Rule) payload(env *expr.Env) (json.RawMessage, error) {
	if r.Payload == nil {
		return nil, nil
	}
	payload, err := r.Payload.Render(env, maxPayload)
	if errors.Is(err, errLarge) {
		err = errLargePayload
	}
	return payload, err
}

// Paths returns what the rule may read of objects to evaluate a change. A rule without a payload
// also delivers the whole object.
func (r *Rule) Paths() *object.Paths {
	p := new(object.Paths)
	programs := []*expr.Program{r.Where, r.Due, r.When}
	if r.Group != nil {
		programs = append(programs, r.Group.By)
	}
	if r.Count != nil {
		programs = append(programs, r.Count.By, r.Count.At)
	}
	for _, program := range programs {
		if program != nil {
			p.Union(program.Paths())
		}
	}
	r.Payload.Each(func(program *expr.Program) { p.Union(program.Paths()) })
	for _, counter := range r.Counters {
		p.Union(counter.Paths())
	}
	return p
}

// PayloadPaths returns what the payload may read of objects.
func (r *Rule) PayloadPaths() *object.Paths {
	p := new(object.Paths)
	r.Payload.Each(func(program *expr.Program) { p.Union(program.Paths()) })
	return p
}

// OldPaths returns what the rule may read of old states.
func (r *Rule) OldPaths() *object.Paths {
	p := new(object.Paths)
	for _, program := range []*expr.Program{r.Where, r.Due} {
		if program != nil {
			p.Union(program.Paths())
		}
	}
	add := func(program *expr.Program) {
		if program.ReadsOld() {
			p.Union(program.Paths())
		}
	}
	if r.When != nil {
		add(r.When)
	}
	r.Payload.Each(add)
	for _, counter := range r.Counters {
		for _, program := range counter.Programs() {
			add(program)
		}
	}
	return p
}

// Lookups returns what the rule reads of objects of the sources it looks into, by source, to
// evaluate a change. A source whose objects it does not read is there too.
func (r *Rule) Lookups() Lookups {
	l := make(Lookups)
	if r.When != nil {
		l.add(r.When)
	}
	r.Payload.Each(l.add)
	return l
}

// Lookups are paths by the name of a source.
type Lookups map[string]*object.Paths

func (l Lookups) add(p *expr.Program) {
	for source, paths := range p.Lookups() {
		if l[source] == nil {
			l[source] = new(object.Paths)
		}
		l[source].Union(paths)
	}
}

// becomes returns the types that member may make of a change of type t.
func (r *Rule) becomes(t delta.Type) delta.Set {
	if t == delta.Updated && r.Where != nil {
		return delta.SetOf(delta.Added, delta.Updated, delta.Deleted)
	}
	return delta.SetOf(t)
}

// member returns the change as where sees it. An object that begins to satisfy where is added. One
// that no longer does is deleted, with its last state inside.
func (r *Rule) member(d delta.Delta, look Lookup) (_ delta.Delta, ok bool, err error) {
	if r.Where == nil {
		return d, true, nil
	}
	env := new(expr.Env) // one for both states: for most changes, most rules end here
	inside := func(tree any) (in bool) {
		env.Object = tree
		in, err = r.Where.Bool(env)
		return in
	}
	switch d.Type {
	case delta.Updated:
		was, is := inside(look.Old(d.Old)), inside(look.Tree(d.Object))
		err = join(nil, "where", err) // of the new state
		switch {
		case is && !was:
			d = delta.Delta{Type: delta.Added, Object: d.Object}
		case was && !is:
			d = delta.Delta{Type: delta.Deleted, Object: d.Old}
		}
		return d, was || is, err
	case delta.Deleted:
		if d.Old == nil {
			in := inside(look.Tree(d.Object))
			return d, in, nil
		}
		was := inside(look.Old(d.Old))
		if was && !inside(look.Tree(d.Object)) { // its last state already left where
			d.Object = d.Old
		}
		return d, was, nil
	}
	in := inside(look.Tree(d.Object))
	return d, in, join(nil, "where", err)
}

var events = [...]any{
	delta.Added:   delta.Added.String(),
	delta.Updated: delta.Updated.String(),
	delta.Deleted: delta.Deleted.String(),
	delta.Synced:  delta.Synced.String(),
}

func (r *Rule) environment(d delta.Delta, look Lookup) expr.Env {
	return environment(d, look, r.IsScheduled)
}

func environment(d delta.Delta, look Lookup, isScheduled bool) expr.Env {
	env := expr.Env{
		Object: look.Tree(d.Object), Event: events[d.Type],
		Now: look.Now(), Cache: look,
	}
	if d.Type == delta.Updated {
		env.Old = look.Old(d.Old)
	}
	if isScheduled && d.Type == delta.Synced && d.Round > 0 {
		env.Moment = time.Unix(d.Round, 0)
	}
	return env
}

func join(err error, field string, failure error) error {
	if failure == nil {
		return err
	}
	return errors.Join(err, fmt.Errorf("%s: %w", field, failure))
}
