package handlertest

import (
	"context"
	"time"
)

// CheckClause checks one clause alone, with that patience.
func CheckClause(ctx context.Context, o Options, name string, patience time.Duration) (_ Result, found bool) {
	for _, c := range clauses {
		if c.name == name {
			s := newSuite(o)
			s.patience = patience
			return s.check(ctx, c), true
		}
	}
	return Result{}, false
}

// CheckWithin checks one clause alone, within limit.
func CheckWithin(ctx context.Context, o Options, name string, limit time.Duration) Result {
	o.Only = name
	s := newSuite(o)
	s.limit = limit
	return s.check(ctx, s.clauses()[1])
}
