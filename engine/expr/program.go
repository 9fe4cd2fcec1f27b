package expr

import (
	"iter"
	"slices"
	"time"

	"github.com/informd/informd/engine/expr/value"
	"github.com/informd/informd/engine/object"
)

// Scope is the purpose of an expression. It decides which names the expression may use, and what it
// must give.
type Scope uint8

const (
	// Where selects the objects of a rule. It sees object alone, so membership can be decided again
	// at any time from an object's bytes.
	Where Scope = iota
	// When selects changes. It sees object, old, event, now(), byIndex() and lookup().
	When
	// Index gives the values under which an index has an object. It sees object alone.
	Index
	// Payload gives what a handler receives. It sees what When sees.
	Payload
	// Attach gives objects to send along, which byIndex and lookup found. It sees what When sees.
	Attach
	// ForEach gives the list whose elements actions are made for. It sees what When sees.
	ForEach
	// Sent gives what a handler makes of an event. It sees object, old, event, now(), and what
	// Options.Given names.
	Sent
	// Due gives the time from which an object is a member of a rule. It sees what Where sees.
	Due
	// By gives what a rule's changes have in common. It sees what Where sees.
	By
	// At gives the time at which a change happened. It sees what Where sees.
	At
	// Gauge gives the value or a label of a gauge. It sees what Where sees.
	Gauge
	// Counter gives the value or a label of a counter. It sees object, old, event and now().
	Counter
)

// Options say how to compile a text.
type Options struct {
	Scope   Scope
	Indexes []string // names that byIndex takes
	// NoSource says that the rule has no source of its own, and so nothing for byIndex.
	NoSource bool
	// Sources that lookup takes, with the names of their indexes.
	Sources map[string][]string
	// NoCache says that the text is evaluated by itself, without a cache to look into.
	NoCache bool
	// Item is the program, compiled for ForEach, whose elements item stands for; nil: no item.
	Item *Program
	// Given are further names that the text may use, each with the members that it has; nil: any.
	// Env.Given has their values.
	Given map[string][]string
	// IsNumber says that the text must give a number: see Program.Number.
	IsNumber bool
	// Inline, if set, changes the text of each expression within a longer string of a template.
	// expression is what stands between ${ and }.
	Inline func(expression, text string) string
	// Branch, if set, is called for each Branch of the text. Evaluations call what it returns with
	// each outcome. Such a Program has no Requires, because they would spare evaluations.
	Branch func(Branch) func(outcome bool)
	// Trace makes a Program that Program.Trace takes. It has no Requires, either.
	Trace bool

	event string // of neverTrue: the type of the changes; "": any
}

// Env is what one evaluation sees. Trees come from object.Decode; evaluation only reads them.
type Env struct {
	Object, Old any
	Event       any // a string; callers box it once instead of for every evaluation
	Now         time.Time
	Moment      time.Time      // of the schedule that the event comes from; zero: of none
	Cache       Cache          // nil finds nothing
	Item        any            // one of the values that Elements returned
	Given       map[string]any // trees, as object.Decode makes them, by the names of Options.Given
	Budget      *Budget        // nil: only MaxSteps and MaxMemory bound the evaluation

	tracing *tracing // of Program.Trace
}

// Budget bounds several evaluations together. Each evaluation takes from it what it uses, and never
// gets more than is left.
type Budget struct {
	Steps  int
	Memory int // bytes
}

// meter returns what the next evaluation may take. A nil Budget bounds nothing.
func (b *Budget) meter() value.Meter {
	if b == nil {
		return value.Meter{Steps: MaxSteps, Bytes: MaxMemory}
	}
	return value.Meter{Steps: min(MaxSteps, b.Steps), Bytes: min(MaxMemory, b.Memory)}
}

// charge subtracts from b what an evaluation has used. given is what meter returned for it, and
// left is the rest. charge returns err, the evaluation's error, or errBudget in its place if only b
// has stopped the evaluation.
func (b *Budget) charge(given, left value.Meter, err error) error {
	if b == nil {
		return err
	}
	b.Steps -= given.Steps - max(left.Steps, 0)
	b.Memory -= given.Bytes - left.Bytes
	if err == value.ErrSteps && given.Steps < MaxSteps ||
		err == value.ErrMemory && given.Bytes < MaxMemory {
		return errBudget
	}
	return err
}

// Cache is what byIndex and lookup search. Both find the trees that an index has under a value.
type Cache interface {
	// ByIndex searches the rule's own source.
	ByIndex(index, value string) Found
	// Lookup searches a source by name. Its trees have at least what Program.Lookups says.
	Lookup(source, index, value string) Found
}

// Found is what a search has found, at one moment. Making it must not take a time that grows with
// Len, because nothing counts it. The zero Found is empty.
type Found struct {
	Len int
	// Trees yields Len trees, always the same ones, in the same order. It decodes each only when
	// asked for it, so that the budgets end an expression that looks at too many. It may be nil if
	// Len is 0.
	Trees iter.Seq[any]
}

// Program is a compiled expression. It is immutable and safe for concurrent use. It has many
// fields because one compilation finds out everything about a text.
type Program struct {
	text     string
	eval     eval
	slots    int // how many variables live at once, at most
	paths    *object.Paths
	lookups  map[string]*object.Paths
	gives    []string // of Attach: the sources of the objects in the result, sorted
	elements elementsOf
	reads    mentions
	requires []Condition
	exact    bool // requires says all: see decide
	options  Options
}

// mentions says which names and functions a text mentions.
type mentions struct{ object, old, event, index, item, time bool }

// Text returns what the program was compiled from.
func (p *Program) Text() string { return p.text }

// Paths returns the paths that the program reads of object, old and the objects that byIndex finds,
// in one set. A tree with more paths evaluates alike. The caller must not change the set.
func (p *Program) Paths() *object.Paths { return p.paths }

// Lookups returns, by source, the paths that the program reads of the objects that lookup finds. A
// source of which it reads no path is included. Lookups returns nil if there are no sources. The
// caller must not change the map.
func (p *Program) Lookups() map[string]*object.Paths { return p.lookups }

// Gives returns the sources of the objects in the result of Objects, sorted; "" is the rule's own
// source.
func (p *Program) Gives() []string { return p.gives }

// ReadsObject reports whether the program mentions object.
func (p *Program) ReadsObject() bool { return p.reads.object }

// ReadsOld reports whether the program mentions old.
func (p *Program) ReadsOld() bool { return p.reads.old }

// ReadsEvent reports whether the program mentions event.
func (p *Program) ReadsEvent() bool { return p.reads.event }

// ReadsIndex reports whether the program searches the rule's own source, by byIndex.
func (p *Program) ReadsIndex() bool { return p.reads.index }

// ReadsItem reports whether the program mentions item, the element of a forEach.
func (p *Program) ReadsItem() bool { return p.reads.item }

// ReadsTime reports whether the program mentions now() or moment().
func (p *Program) ReadsTime() bool { return p.reads.time }

// Bool evaluates a condition. Nil is false; anything but true, false and nil is an error.
//
// The errors of Bool, Number, Label, Strings, Objects and Value never carry contents of objects,
// and their text is the same for every failure of one kind, so that it can serve as a key.
func (p *Program) Bool(env *Env) (ok bool, err error) {
	if p.exact && env.Budget == nil {
		if ok, sure := p.decide(env.Object); sure {
			return ok, nil
		}
	}
	err = p.run(env, func(_ *run, v any) error {
		ok, err = value.Truth(v)
		if err != nil {
			return value.Errorf("the expression gives %s, not true or false", value.Some(v))
		}
		return nil
	})
	return ok, err
}

// Time evaluates a program of scope Due or At. ok is false if it gives nil: there is no such time.
func (p *Program) Time(env *Env) (at time.Time, ok bool, err error) {
	err = p.run(env, func(_ *run, v any) error {
		if v == nil {
			return nil
		}
		t, isTime := v.(time.Time)
		switch {
		case !isTime:
			return notTime(v)
		case t.Before(earliest) || t.After(latest):
			return value.ErrYear
		}
		at, ok = t, true
		return nil
	})
	return at, ok, err
}

// These bound what Time returns.
var (
	earliest = time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, time.December, 31, 23, 59, 59, 999_999_999, time.UTC)
)

// notTime is the error about a value that is not the time that it should be.
func notTime(v any) error {
	if _, isText := v.(string); isText {
		return value.Errorf("the expression gives a string, not a time: write time(…) around it")
	}
	return value.Errorf("the expression gives %s, not a time", value.Some(v))
}

// Number evaluates the value of a metric: a number, true as 1 and false as 0, a time as Unix time,
// a duration in seconds, or a quantity. ok is false if it gives nil.
func (p *Program) Number(env *Env) (f float64, ok bool, err error) {
	err = p.run(env, func(_ *run, v any) error {
		if v == nil {
			return nil
		}
		f, err = value.Number(v)
		ok = err == nil
		return err
	})
	return f, ok, err
}

// Label evaluates a label of a metric: a scalar, as text. nil is "".
func (p *Program) Label(env *Env) (text string, err error) {
	err = p.run(env, func(r *run, v any) error {
		switch v.(type) {
		case nil:
			return nil
		case []any, map[string]any:
			return value.Errorf("a label needs a string, not %s", value.Some(v))
		}
		text, err = r.Text("label", v)
		return err
	})
	return text, err
}

// Strings evaluates an index. It returns the scalar, or the scalars of a list, as strings without
// duplicates, in order and without nils.
func (p *Program) Strings(env *Env) (values []string, err error) {
	err = p.run(env, func(r *run, v any) error {
		values, err = r.indexValues(v)
		return err
	})
	return values, err
}

// Objects evaluates a program of scope Attach. It returns the very trees that byIndex and lookup
// yielded, in order and without nils. An object that stands alone is a list of one.
func (p *Program) Objects(env *Env) (trees []map[string]any, err error) {
	err = p.run(env, func(r *run, v any) error {
		trees, err = r.objects(v)
		return err
	})
	return trees, err
}

// Elements evaluates a program of scope ForEach. It returns the elements of the list without nils;
// of nil there are none. Each can be the Item of an Env.
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

// elementsOf is what a program of scope ForEach knows of its list.
type elementsOf struct {
	shape shape // of one element
	// found gives the list as a *finding. It is nil unless the whole list is one search.
	found *Program
}

// Each calls visit with the elements that Elements returns, in the same order.
//
// If the whole list is one search, such as lookup("nodes.byZone", object.zone), it may have any
// number of elements. Each then visits the objects that the search finds at the beginning, whatever
// changes meanwhile. It decodes one object at a time, and meters it as an evaluation of its own.
//
// Each stops at an error of visit and returns it unchanged. It does not recover from a panic of
// visit.
func (p *Program) Each(env *Env, visit func(item any) error) (err error) {
	if p.elements.found == nil {
		items, err := p.Elements(env)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := visit(item); err != nil {
				return err
			}
		}
		return nil
	}
	var f *finding
	err = p.elements.found.run(env, func(_ *run, v any) error {
		f = v.(*finding)
		return nil
	})
	if err != nil || f == nil || f.Len == 0 {
		return err
	}
	budget, visiting := env.Budget, false
	defer func() {
		if visiting {
			return
		}
		if cause := recover(); cause != nil {
			OnPanic(cause)
			err = errInternal
		}
	}()
	for tree := range f.Trees {
		given := budget.meter()
		left := given
		err := left.AllocTree(tree)
		if err = budget.charge(given, left, err); err != nil {
			return err
		}
		if tree == nil {
			continue
		}
		visiting = true
		if err = visit(tree); err != nil {
			return err
		}
		visiting = false
	}
	return nil
}

// Value evaluates to something that encoding/json can encode: nil, bool, int64, float64, string,
// []any or map[string]any. Times become RFC 3339, durations and quantities their canonical strings.
// The value may share memory with the trees of env and with other results, so the caller must not
// change it.
func (p *Program) Value(env *Env) (out any, err error) {
	err = p.run(env, func(r *run, v any) error {
		out, err = r.Encodable(v)
		return err
	})
	return out, err
}
