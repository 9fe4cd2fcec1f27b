package rule

import (
	"errors"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/expr"
)

// pastError is a failure on a text that cannot be read and that the object no longer has: it is in
// the old state alone, or the object is gone.
type pastError struct{ error }

func (p *pastError) Unwrap() error { return p.error }

// IsPast reports whether an evaluation failed on a text that the object no longer has.
func IsPast(err error) bool {
	_, ok := errors.AsType[*pastError](err)
	return ok
}

// past returns the failure, which is not nil, of an evaluation for a change, as a pastError if it is one. again
// evaluates once more.
func past(failure error, d delta.Delta, env expr.Env, again func(*expr.Env) error) error {
	switch {
	case !expr.IsUnreadable(failure):
		return failure
	case d.Type == delta.Deleted:
		return &pastError{failure}
	case d.Type != delta.Updated:
		return failure
	}
	env.Old, env.Budget = env.Object, nil
	if again(&env) != nil {
		return failure
	}
	return &pastError{failure}
}
