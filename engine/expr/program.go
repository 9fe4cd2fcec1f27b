package expr

import (
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/expr/value"
	"github.com/informd/informd/engine/object"
)

// Scope is what an expression is for, which decides what it may mention and what it has to give.
type Scope uint8

const (
	// Where selects the objects that a rule is about. It sees object alone, so that membership can always be told
	// again from an object's bytes.
	Where Scope = iota
	// When selects changes. It sees object, old, event, now(), byIndex() and lookup().
	When
	// Index gives the values that an object is found by. It sees object alone.
	Index
	// Payload gives what is delivered. It sees what When sees.
	Payload
	// Attach gives objects to send along, of those that byIndex and lookup find. It sees what When sees.
	Attach
	// ForEach gives a list, for whose elements actions are made. It sees what When sees.
	ForEach
)

// Options say how a text is to be compiled.
type Options struct {
	Scope   Scope
	Indexes []string // the names that byIndex may be called with
	// Sources are those that lookup may look into, by name, with the names of their indexes.
	Sources map[string][]string
	// Item is the program, compiled for ForEach, of whose elements item is one; nil: there is no item.
	Item *Program
}

// Env is what one evaluation sees. Trees hold what object.Decode makes; they are only read.
type Env struct {
	Object, Old any
	Event       any // a string; callers make it an any once, not for every evaluation
	Now         time.Time
	Cache       Cache   // nil finds nothing
	Item        any     // one of what Elements gave
	Budget      *Budget // nil: each evaluation is bounded by itself alone
}

// Budget bounds several evaluations together. What each takes is taken from it; an evaluation that has less left than
// MaxSteps or MaxMemory gets what is left.
type Budget struct {
	Steps  int
	Memory int // bytes
}

// Cache is where byIndex and lookup look. What either yields are the trees of what an index has under a value, each decoded
// when it is asked for, so that the budgets end a search that finds too much.
type Cache interface {
	// ByIndex looks into the rule's own source.
	ByIndex(index, value string) iter.Seq[any]
	// Lookup looks into any, by name; the trees have what Program.Lookups says at least.
	Lookup(source, index, value string) iter.Seq[any]
}

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	text       string
	eval       eval
	slots      int // how many variables are alive at once, at most
	paths      *object.Paths
	lookups    map[string]*object.Paths
	gives      []string // by Attach: of which sources there are objects in the result, sorted
	elements   shape    // by ForEach: of what the elements of the result may be
	readsOld   bool
	readsEvent bool
	readsIndex bool
	requires   []Condition
}

// Text is what the program was compiled from.
func (p *Program) Text() string { return p.text }

// Paths are the paths that the program reads of object, of old and of what byIndex returns, all in one set. Any set that
// includes them does as well. The caller must not change it.
func (p *Program) Paths() *object.Paths { return p.paths }

// Lookups are the paths that the program reads of what lookup returns, by the names of the sources that it looks into: one
// that it reads nothing of is there too. nil if there are none. The caller must not change it.
func (p *Program) Lookups() map[string]*object.Paths { return p.lookups }

// Gives names the sources of whose objects there may be some in the result of Objects, sorted; "" is the rule's own.
func (p *Program) Gives() []string { return p.gives }

// ReadsOld tells whether the program mentions old.
func (p *Program) ReadsOld() bool { return p.readsOld }

// ReadsEvent tells whether the program mentions event.
func (p *Program) ReadsEvent() bool { return p.readsEvent }

// ReadsIndex tells whether the program looks into the rule's own source, by byIndex.
func (p *Program) ReadsIndex() bool { return p.readsIndex }

// Bool evaluates a condition. Nil is false; anything but true, false and nil is an error.
//
// The errors of Bool, Strings, Objects and Value never carry contents of objects, and their text is the same for every failure of
// one kind, so that it can serve as a key.
func (p *Program) Bool(env *Env) (ok bool, err error) {
	err = p.run(env, func(_ *run, v any) error {
		ok, err = value.Truth(v)
		if err != nil {
			return value.Errorf("the expression gives %s, not true or false", value.Some(v))
		}
		return nil
	})
	return ok, err
}

// Strings evaluates an index: a scalar, or a list of them, as strings without duplicates, in order. Nils are left out.
func (p *Program) Strings(env *Env) (values []string, err error) {
	err = p.run(env, func(r *run, v any) error {
		values, err = r.indexValues(v)
		return err
	})
	return values, err
}

// Objects evaluates what was compiled for Attach: the trees that byIndex and lookup yielded, in order, those very maps. Of a
// list, nils are left out; nil is none, and one that stands alone is a list of one.
func (p *Program) Objects(env *Env) (trees []map[string]any, err error) {
	err = p.run(env, func(r *run, v any) error {
		trees, err = r.objects(v)
		return err
	})
	return trees, err
}

// Elements evaluates what was compiled for ForEach: the elements of a list, nils left out; nil has none. Each can be the Item of
// an Env.
func (p *Program) Elements(env *Env) (items []any, err error) {
	err = p.run(env, func(r *run, v any) error {
		list, ok := v.([]any)
		switch {
		case v == nil:
			return nil
		case !ok:
			return value.Errorf("forEach gives %s, not a list", value.Some(v))
		}
		if err := r.Scan(value.SizeValue * len(list)); err != nil {
			return err
		}
		items = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == nil })
		return nil
	})
	return items, err
}

// Value evaluates to something that encoding/json can encode: nil, bool, int64, float64, string, []any or map[string]any.
// Times are RFC 3339, durations and quantities their canonical strings. It may share memory with the trees of env and
// with other results, so the caller must not change it.
func (p *Program) Value(env *Env) (out any, err error) {
	err = p.run(env, func(r *run, v any) error {
		out, err = r.Encodable(v)
		return err
	})
	return out, err
}
