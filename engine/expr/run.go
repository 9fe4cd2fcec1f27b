package expr

import (
	"errors"
	"sync"

	"github.com/informd/informd/engine/expr/value"
)

// Bounds of an expression's text, and of one evaluation.
const (
	maxText    = 16 << 10 // bytes
	maxNesting = 200      // brackets, conditions and variables inside each other
	MaxSteps   = value.MaxSteps
	MaxMemory  = value.MaxMemory // bytes
)

var (
	errBudget   = value.Errorf("the expressions together exceed what they may take")
	errInternal = errors.New("internal failure while evaluating")
)

// IsUnreadable reports whether an evaluation failed because it could not parse a text, and not
// because of the expression: see value.IsUnreadable.
func IsUnreadable(err error) bool { return value.IsUnreadable(err) }

// eval evaluates one node of the syntax tree.
type eval func(*run) (any, error)

// run is the state of one evaluation.
type run struct {
	value.Meter
	env   Env
	slots []any // variables, and the pointers of predicates
	args  []any // arguments of the calls in progress
}

var runs = sync.Pool{New: func() any { return new(run) }}

// run evaluates p and passes the result to use, which runs within the same budgets.
func (p *Program) run(env *Env, use func(*run, any) error) (err error) {
	r := runs.Get().(*run)
	defer func() {
		if cause := recover(); cause != nil {
			OnPanic(cause)
			err = errInternal // r may be in any state: leave it to the garbage collector
			return
		}
		r.release()
	}()
	// a copy, so that the caller's Env stays on its stack
	r.env, r.Meter = *env, env.Budget.meter()
	if b := env.Budget; b != nil {
		given := r.Meter
		defer func() { err = b.charge(given, r.Meter, err) }()
	}
	if cap(r.slots) < p.slots {
		r.slots = make([]any, p.slots)
	}
	r.slots = r.slots[:p.slots]
	v, err := p.eval(r)
	if err != nil {
		return err
	}
	return use(r, v)
}

// release returns r to the pool without any value, so that the pool keeps no object alive. It drops
// an r that has grown large.
func (r *run) release() {
	clear(r.slots)
	clear(r.args[:cap(r.args)])
	r.env, r.args = Env{}, r.args[:0]
	if cap(r.args) <= 1024 {
		runs.Put(r)
	}
}

// call evaluates args and calls f with them. f must not keep the slice.
func (r *run) call(f func(*value.Meter, []any) (any, error), args []eval) (any, error) {
	base := len(r.args)
	for _, arg := range args {
		v, err := arg(r)
		if err != nil {
			return nil, err
		}
		r.args = append(r.args, v)
	}
	if err := r.Step(); err != nil {
		return nil, err
	}
	v, err := f(&r.Meter, r.args[base:])
	r.args = r.args[:base]
	return v, err
}
