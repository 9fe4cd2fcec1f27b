package expr

import (
	"errors"
	"fmt"
	"sync"
)

const (
	MaxText    = 16 << 10 // bytes of an expression's text
	MaxNesting = 200      // brackets, conditions and variables inside each other
	MaxSteps   = 100_000  // operators, calls and turns of a loop in one evaluation
	MaxMemory  = 8 << 20  // bytes allocated by one evaluation, whether still in use or not
)

// failure is an evaluation's error.
type failure string

func (f failure) Error() string { return string(f) }

// failf is for names of operators, functions, kinds and keys that stand in the expression's text, never for values.
func failf(format string, args ...any) error { return failure(fmt.Sprintf(format, args...)) }

var (
	errSteps    = failf("step budget of %d exceeded", MaxSteps)
	errMemory   = failf("memory budget of %d MiB exceeded", MaxMemory>>20)
	errBudget   = failf("the expressions together exceed what they may take")
	errDepth    = failf("value nests deeper than %d", maxDepth)
	errInternal = errors.New("internal failure while evaluating")
)

// eval evaluates one node of the syntax tree.
type eval func(*run) (any, error)

// run is the state of one evaluation.
type run struct {
	env   Env
	steps int   // left
	bytes int   // left
	slots []any // variables, and the pointers of predicates
	args  []any // the arguments of the calls under way
}

var runs = sync.Pool{New: func() any { return new(run) }}

// run evaluates p and hands the result to use, which still runs within the budgets.
func (p *Program) run(env *Env, use func(*run, any) error) (err error) {
	r := runs.Get().(*run)
	defer func() {
		if recover() != nil {
			err = errInternal // r may be in any state: leave it to the collector
			return
		}
		r.release()
	}()
	r.env, r.steps, r.bytes = *env, MaxSteps, MaxMemory // a copy: what callers pass stays on their stack
	if b := env.Budget; b != nil {
		r.steps, r.bytes = min(r.steps, b.Steps), min(r.bytes, b.Memory)
		steps, bytes := r.steps, r.bytes
		defer func() {
			b.Steps, b.Memory = b.Steps-(steps-max(r.steps, 0)), b.Memory-(bytes-r.bytes)
			if err == errSteps && steps < MaxSteps || err == errMemory && bytes < MaxMemory {
				err = errBudget
			}
		}()
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

// release forgets every value, so that the pool keeps no object alive, and nothing that has grown large.
func (r *run) release() {
	clear(r.slots)
	clear(r.args[:cap(r.args)])
	r.env, r.args = Env{}, r.args[:0]
	if cap(r.args) <= 1024 {
		runs.Put(r)
	}
}

// step counts one step.
func (r *run) step() error {
	r.steps--
	if r.steps < 0 {
		return errSteps
	}
	return nil
}

// scan counts the work of looking at n bytes.
func (r *run) scan(n int) error {
	r.steps -= 1 + n/256
	if r.steps < 0 {
		return errSteps
	}
	return nil
}

// alloc counts n bytes, before they are allocated.
func (r *run) alloc(n int) error {
	if n < 0 || n > r.bytes {
		return errMemory
	}
	r.bytes -= n
	return nil
}

// What things cost, in bytes, on the safe side.
const (
	sizeValue = 16 // an interface in a list
	sizeBoxed = 8  // a number behind an interface
	sizeEntry = 48 // an entry of a map
)

// allocList counts a list of n values.
func (r *run) allocList(n int) error {
	if n > MaxMemory {
		return errMemory
	}
	return r.alloc(2*sizeValue + n*sizeValue)
}

// allocMap counts a map of n entries; the smallest map already has room for eight.
func (r *run) allocMap(n int) error {
	if n > MaxMemory {
		return errMemory
	}
	return r.alloc(sizeEntry + max(n, 8)*sizeEntry)
}

// call evaluates args and calls f with them, which must not keep the slice.
func (r *run) call(f func(*run, []any) (any, error), args []eval) (any, error) {
	base := len(r.args)
	for _, arg := range args {
		v, err := arg(r)
		if err != nil {
			return nil, err
		}
		r.args = append(r.args, v)
	}
	if err := r.step(); err != nil {
		return nil, err
	}
	v, err := f(r, r.args[base:])
	r.args = r.args[:base]
	return v, err
}

// allocTree counts a decoded tree, which was made for this evaluation: a step for each of its values, and their memory.
func (r *run) allocTree(v any) error {
	if err := r.step(); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		return r.alloc(16 + len(v))
	case []any:
		if err := r.allocList(len(v)); err != nil {
			return err
		}
		for _, item := range v {
			if err := r.allocTree(item); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := r.allocMap(len(v)); err != nil {
			return err
		}
		for key, item := range v {
			if err := r.alloc(len(key)); err != nil {
				return err
			}
			if err := r.allocTree(item); err != nil {
				return err
			}
		}
	}
	return nil
}
