// Package rule decides which changes a rule selects, and as what: membership by where, then the kind of change, then
// when, at last the payload. It is a function of a change and of what can be looked up in the cache; a Rule keeps no state,
// so that membership can always be told again from an object's bytes.
package rule

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
	"github.com/informd/informd/engine/object"
)

// Rule is a compiled rule. It is immutable and safe for concurrent use.
type Rule struct {
	Name    string
	Where   *expr.Program // nil: every object
	When    *expr.Program // nil: every change
	Events  delta.Set
	Payload *Template // nil: the objects themselves
	// Attached are sent along with what is delivered. They are not made by Match, but when it is delivered: see Attach.
	Attached []Attachment
	// Actions are carried out in the place of a delivery; nil: there are none. They are not made by Match either.
	Actions *Actions
}

// Lookup is what a rule may see beside the change itself. One goroutine uses it at a time.
type Lookup interface {
	// Tree is the object decoded, as far as any rule that shares the Lookup reads it. nil for nil.
	Tree(*object.Object) any
	// Old is the same of an object as the old state of a change: as far as any of the rules reads those.
	Old(*object.Object) any
	// Cache has the objects of the rule's source, and of those that it looks into.
	expr.Cache
	// Now is the time of the evaluation. It is asked for only where when or payload are evaluated.
	Now() time.Time
}

// Match is a change as a rule selected it.
type Match struct {
	Delta   delta.Delta
	Payload json.RawMessage // nil where the rule has none
	// Undecided says that when has not been asked yet, and there is no payload: see Decide.
	Undecided bool
	// Version names the change itself, by its resourceVersions, which need not be those of Delta: an object that left where is
	// told as it was last inside. Rules do not set it; "" where nobody asks whose change it is.
	Version string
}

// Match tells whether the rule selects a change, and as what; of what it selects, only an Updated has an Old. An
// expression that fails does not match; err says so also where the change matches all the same (where failed on the old
// state only). It never holds contents of objects.
func (r *Rule) Match(d delta.Delta, look Lookup) (m Match, ok bool, err error) {
	m, ok, err = r.Member(d, look)
	if !ok {
		return Match{}, false, err
	}
	m, ok, failure := r.Decide(m.Delta, look)
	return m, ok, errors.Join(err, failure)
}

// Member is Match as far as where and the kinds of change go, which depend on nothing but the change. The rest is up to Decide.
func (r *Rule) Member(d delta.Delta, look Lookup) (m Match, ok bool, err error) {
	if r.Events&r.becomes(d.Type) == 0 {
		return Match{}, false, nil
	}
	d, ok, err = r.member(d, look)
	if !ok || !r.Events.Has(d.Type) {
		return Match{}, false, err
	}
	if d.Type == delta.Deleted {
		d.Old = nil // membership is told: what waits must not hold on to a state that nobody gets to see
	}
	return Match{Delta: d, Undecided: true}, true, err
}

// Decide is the rest of Match, for a change as Member gave it.
func (r *Rule) Decide(d delta.Delta, look Lookup) (m Match, ok bool, err error) {
	if r.When == nil && r.Payload == nil {
		return Match{Delta: d}, true, nil
	}
	env := environment(d, look)
	if r.When != nil {
		matched, failure := r.When.Bool(&env)
		if err = join(err, "when", failure); !matched {
			return Match{}, false, err
		}
	}
	payload, failure := r.payload(&env)
	if failure != nil {
		return Match{}, false, join(err, "payload", failure)
	}
	return Match{Delta: d, Payload: payload}, true, err
}

// Remerge makes the payload of a merged delta.
func (r *Rule) Remerge(d delta.Delta, look Lookup) (json.RawMessage, error) {
	env := environment(d, look)
	payload, err := r.payload(&env)
	return payload, join(nil, "payload", err)
}

// maxPayload bounds the JSON of a payload, in bytes.
const maxPayload = 8 << 20

var errLargePayload = fmt.Errorf("it exceeds %d MiB", maxPayload>>20)

// payload makes the payload of a change. It returns nil if the rule has none.
func (r *Rule) payload(env *expr.Env) (json.RawMessage, error) {
	if r.Payload == nil {
		return nil, nil
	}
	payload, err := r.Payload.render(env, maxPayload)
	if errors.Is(err, errLarge) {
		err = errLargePayload
	}
	return payload, err
}

// Paths are what the rule reads of the objects it sees, at times, to evaluate a change; a rule without a payload hands on the
// whole object.
func (r *Rule) Paths() *object.Paths {
	p := new(object.Paths)
	for _, program := range []*expr.Program{r.Where, r.When} {
		if program != nil {
			p.Union(program.Paths())
		}
	}
	r.Payload.each(func(program *expr.Program) { p.Union(program.Paths()) })
	return p
}

// OldPaths are what the rule reads of old states, at times.
func (r *Rule) OldPaths() *object.Paths {
	p := new(object.Paths)
	if r.Where != nil {
		p.Union(r.Where.Paths())
	}
	add := func(program *expr.Program) {
		if program.ReadsOld() {
			p.Union(program.Paths())
		}
	}
	if r.When != nil {
		add(r.When)
	}
	r.Payload.each(add)
	return p
}

// Lookups are what the rule reads of the objects of sources that it looks into, by their names, to evaluate a change. A source
// of whose objects it reads nothing is there too.
func (r *Rule) Lookups() Lookups {
	l := make(Lookups)
	if r.When != nil {
		l.add(r.When)
	}
	r.Payload.each(l.add)
	return l
}

// Lookups are paths by the names of sources.
type Lookups map[string]*object.Paths

func (l Lookups) add(p *expr.Program) {
	for source, paths := range p.Lookups() {
		if l[source] == nil {
			l[source] = new(object.Paths)
		}
		l[source].Union(paths)
	}
}

// becomes are the kinds of change that member makes of one.
func (r *Rule) becomes(t delta.Type) delta.Set {
	if t == delta.Updated && r.Where != nil {
		return delta.SetOf(delta.Added, delta.Updated, delta.Deleted)
	}
	return delta.SetOf(t)
}

// member is the change as where sees it: an object that comes to satisfy it is added, one that ceases to is deleted,
// with its last state inside.
func (r *Rule) member(d delta.Delta, look Lookup) (_ delta.Delta, ok bool, err error) {
	if r.Where == nil {
		return d, true, nil
	}
	env := new(expr.Env) // one for both states: most rules get no further than this, for most changes
	inside := func(tree any) bool {
		env.Object = tree
		in, failure := r.Where.Bool(env)
		if err == nil { // of an update, one of its states is enough to tell of
			err = join(nil, "where", failure)
		}
		return in
	}
	switch d.Type {
	case delta.Updated:
		was, is := inside(look.Old(d.Old)), inside(look.Tree(d.Object))
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
			return d, in, err
		}
		was := inside(look.Old(d.Old))
		if was && !inside(look.Tree(d.Object)) { // it left with its last breath
			d.Object = d.Old
		}
		return d, was, err
	}
	in := inside(look.Tree(d.Object))
	return d, in, err
}

var events = [...]any{
	delta.Added:   delta.Added.String(),
	delta.Updated: delta.Updated.String(),
	delta.Deleted: delta.Deleted.String(),
	delta.Synced:  delta.Synced.String(),
}

func environment(d delta.Delta, look Lookup) expr.Env {
	env := expr.Env{Object: look.Tree(d.Object), Event: events[d.Type], Now: look.Now(), Cache: look}
	if d.Type == delta.Updated {
		env.Old = look.Old(d.Old)
	}
	return env
}

func join(err error, field string, failure error) error {
	if failure == nil {
		return err
	}
	return errors.Join(err, fmt.Errorf("%s: %w", field, failure))
}
